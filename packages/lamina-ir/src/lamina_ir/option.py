"""What a setting is: one default for the process, overlaid per thread inside `with` blocks; and the key of all that programs
depend on. The settings themselves stand in `config` and in the rooms they are of.

A setting read on hot paths is a plain attribute read (`enable_x64.value`); rooms with state of their own (the C++
dispatch, say) subscribe with `watch` and are told of each change.
"""
from __future__ import annotations

import itertools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

__all__ = ["Generation", "Option", "UNSET", "cache_key", "generation", "keyed_values", "options", "restored", "unchanged",
           "watch_keyed"]

options: dict[str, Option] = {}
_keyed: list[Option | Generation] = []
_keyed_watchers: list[Callable[[Option | Generation], None]] = []
_epochs = itertools.count(1)
_epoch = 0  # another number after every change of a keyed option, in any thread


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET = _Unset()  # what a watcher is told when a thread's own value ends


class _Overlay(threading.local):
    """A thread's own value, and those of all its open blocks. Class attributes save an exception on each read."""

    value: Any = UNSET
    open: tuple[list[Any], ...] = ()


class _Key(threading.local):
    """A thread's cache key, and when it was made."""

    epoch = -1
    key: tuple[Any, ...] = ()


_key = _Key()


def _new_epoch() -> None:
    global _epoch
    _epoch = next(_epochs)  # a number of its own, so that no two changes at a time can hide one of them


class _Changes(threading.local):
    made = 0


class _Changing:
    """`with generation.changing():`, without state of its own; each row that an import defines passes through it."""

    __slots__ = ("of",)

    def __init__(self, of: Generation) -> None:
        self.of = of

    def __enter__(self) -> None:
        self.of._lock.acquire()
        self.of._changing += 1

    def __exit__(self, *error: object) -> None:
        self.of._changing -= 1
        self.of._lock.release()


class Generation:
    """Which rows of the rule tables are in force, and what fills the slots: one number, the same in all threads.

    It is part of `cache_key()`, so a program made under one number is not found under another. `RuleTable` and the slots
    set it; a number that comes back means that the rows of that number are in force again. Whoever changes what it stands
    for does so in a block `with generation.changing():`, one thread at a time.

    Who watches is told another number, which never comes back. jaxlib needs that: it takes the key of a call first and calls
    Python, which makes the program, later, perhaps after a change in another thread. What it then keeps is of the rows after
    the change, under a key from before it, and must not be found when these are in force again.
    """

    name = "generation"

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.RLock()  # the collector may end an override of a forgotten generator at any time
        self._changing = 0  # how many blocks are open, of one thread
        self._changes = 0
        self._own = _Changes()
        self._block = _Changing(self)
        self._watchers: list[Callable[[Any, bool], None]] = []
        _keyed.append(self)

    def changing(self) -> _Changing:
        """A block in which rows may be those of neither number, to be ended by `set`, `count` or nothing."""
        return self._block

    def set(self, value: int) -> None:
        """Say that other rows are in force."""
        with self._lock:
            self.value = value
            self.count()

    def count(self) -> None:
        """Note a change, of rows or of a setting for all threads. Called in a block of `changing`."""
        self._changes += 1
        self._own.made += 1
        _new_epoch()
        for tell in self._watchers:  # they keep copies, so the last one told must be the last change: hence the block
            tell(self._changes, False)

    def watch(self, tell: Callable[[Any, bool], None]) -> None:
        """Call `tell(number, False)` now and on every change, with a number that was never told before."""
        self._watchers.append(tell)
        tell(self._changes, False)

    def elsewhere(self) -> int:
        """How many changes other threads have made: read before and after something is made of rows, it is the same if
        there was none meanwhile. Else that may be made of rows of both sides, so it is used once and not remembered."""
        if self._changing and not self._mine():
            return -next(_epochs)  # in the middle of a change: unlike any other answer
        return self._changes - self._own.made

    def _mine(self) -> bool:
        """Whether it is this thread that changes rows now."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return True
        return False


generation = Generation()


_SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
# Kind of values -> (what is expected, whether a value is that). Of others the check says what they take.
_KINDS: dict[type, tuple[str, Callable[[Any], bool]]] = {
    bool: ("True or False", lambda v: isinstance(v, (bool, int, np.bool_)) and v in (0, 1)),
    int: ("a whole number", lambda v: isinstance(v, (int, np.integer)) and not isinstance(v, bool)),
    float: ("a number", lambda v: isinstance(v, (int, float, np.integer, np.floating)) and not isinstance(v, bool)),
    str: ("a string", lambda v: isinstance(v, str))}
_NOT_THE_USERS = ("lamina", "lamina_ir", "contextlib")


def _from_environment(names: tuple[str, ...], also: str) -> tuple[str, str] | None:
    """The first of the environment's variables that say something about a setting, and what it says."""
    for variable in (*[prefix + name.upper() for name in names for prefix in ("LAMINA_", "JAX_")], *([also] if also else [])):
        text = os.environ.get(variable)
        if text:
            return variable, text
    return None


class Option:
    """One setting: `.value` reads it, `.set(v)` changes the default, `with option(v):` overlays it in this thread.

    Args:
      name: as in `config.update(name, value)`; the environment variable `LAMINA_<NAME>`, or `JAX_<NAME>`, sets the initial
        default.
      default: initial value; a setting without choices and check takes values of its kind.
      choices: allowed values, or None for any.
      check: called with a value that is to be set; raises ValueError or TypeError when it will not do.
      keyed: whether programs depend on it, so that it belongs to the keys of staged and compiled ones.
      help: one line.
      also: other names it goes by.
      means: other spellings of values, as `{None: "allow"}`.
      inert: why other values than the default change nothing here; who sets one is told so, once.
      env: one more environment variable.
      kind: of the values; that of the default, as a rule.

    Attributes:
      ever: whether it has been anything but false since the process began: a plain attribute, for the hottest of paths.
      initial: the default it was made with, before the environment had its say.
    """

    ever = False

    def __init__(self, name: str, default: Any, *, choices: tuple[Any, ...] | None = None,
                 check: Callable[[Any], object] | None = None, keyed: bool = False, help: str = "", also: tuple[str, ...] = (),
                 means: Mapping[Any, Any] | None = None, inert: str = "", env: str = "",
                 kind: type | None = None) -> None:
        self.name = name
        self.choices = choices
        self.check = check
        self.keyed = keyed
        self.__doc__ = self.help = help
        self.also, self.means, self.inert, self.env = also, means, inert, env
        self._told = False
        self._local = _Overlay()
        self._watchers: list[Callable[[Any, bool], None]] = []
        self.initial = self._default = default
        self.kind = kind or type(default)
        found = _from_environment((name, *also), env)
        if found is not None:
            self._default = self.parsed(found[1], f"the environment variable {found[0]}")
            self._tell_inert(self._default)
        self.ever = self.everywhere = bool(self._default)  # whether some thread had it on; whether all of them always have
        self._off_in_threads = False
        for known_as in (name, *also):
            options[known_as] = self
        if keyed:
            _keyed.append(self)
            self._changed()
            for tell in _keyed_watchers:
                tell(self)

    def _changed(self) -> None:
        if self.keyed:
            _new_epoch()

    def parsed(self, text: str, source: str) -> Any:
        """The value that a text stands for; `source`, for errors, says where it was found."""
        text = text.strip()
        if text.lower() in (self.choices or ()):
            return text.lower()
        if self.means is not None and text in self.means:
            return self.means[text]
        if self.kind is bool:
            if text.lower() not in _SWITCHES:
                more = "".join(f", {c}" for c in self.choices or () if isinstance(c, str))
                raise ValueError(f"config {self.name}: {source} must be 1 or 0, true or false, yes or no, on "
                                 f"or off{more}; got {text!r}")
            return _SWITCHES[text.lower()]
        if text.lower() in ("", "none") and self.initial is None:
            return None
        found: Any
        if self.kind in (int, float):
            try:
                found = self.kind(text)
            except ValueError:
                raise ValueError(f"config {self.name}: {source} must be {_KINDS[self.kind][0]}; got "
                                 f"{text!r}") from None
        else:
            found = text
        try:
            return self._check(found)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{error}, from {source}") from None

    def _check(self, value: Any) -> Any:
        if self.means is not None and isinstance(value, Hashable) and value in self.means:
            value = self.means[value]
        if self.choices is not None:
            if not isinstance(value, Hashable) or value not in self.choices:
                raise ValueError(f"config {self.name}: expected one of {self.choices}; got {value!r:.200}")
        elif self.kind in _KINDS and not (value is None and self.initial is None):
            expected, fits = _KINDS[self.kind]
            if fits(value):
                value = self.kind(value)
                if self.kind is bool:
                    return value  # a check says what else it may be
            elif self.kind is not bool or self.check is None:
                orelse = " or None" if self.initial is None else ""
                raise ValueError(f"config {self.name}: expected {expected}{orelse}; got {value!r:.200}")
        if self.check is not None:
            self.check(value)
        return value

    def checked_by(self, check: Callable[[Any], object]) -> None:
        """Have values checked from now on, that which the environment gave included.

        Args:
          check: as the constructor has it.

        >>> from lamina_ir import config
        >>> config.default_matmul_precision.checked_by(config.default_matmul_precision.check)
        """
        self.check = check
        found = _from_environment((self.name, *self.also), self.env)
        if found is not None:
            self.parsed(found[1], f"the environment variable {found[0]}")

    def _tell_inert(self, value: Any) -> None:
        """Warn, once, that a value other than the default changes nothing."""
        if self.inert and not self._told and value != self.initial:
            frame, level = sys._getframe(1), 2
            while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USERS:
                frame, level = frame.f_back, level + 1
            self._told = True
            warnings.warn(f"config {self.name}: {value!r} has no effect: {self.inert}", stacklevel=level)

    @property
    def value(self) -> Any:
        own = self._local.value
        return self._default if own is UNSET else own

    @property
    def own(self) -> Any:
        """This thread's own value; `UNSET` where it follows the default."""
        return self._local.value

    def __bool__(self) -> bool:
        return bool(self.value)

    def set(self, value: Any) -> None:
        """Change the default for all threads without an overlay of their own."""
        value = self._check(value)
        self._tell_inert(value)
        with generation.changing():
            self._default = value
            self.ever = self.ever or bool(value)
            self.everywhere = bool(value) and not self._off_in_threads
            if self.keyed:
                generation.count()
        for tell in self._watchers:
            tell(self._default, False)

    def watch(self, tell: Callable[[Any, bool], None]) -> None:
        """Call `tell(value, is_local)` now and on every change; a local change that ends tells `(UNSET, True)`. Who comes late,
        inside of this thread's block, is told its value too."""
        self._watchers.append(tell)
        tell(self._default, False)
        if self._local.value is not UNSET:
            tell(self._local.value, True)

    def _overlay(self, value: Any) -> None:
        if value is UNSET:
            vars(self._local).pop("value", None)
        else:
            self._local.value = value
            self.ever = self.ever or bool(value)
            if not value:
                self._off_in_threads, self.everywhere = True, False
        self._changed()
        for tell in self._watchers:
            tell(value, True)

    @contextmanager
    def __call__(self, new_val: Any = True) -> Iterator[None]:
        new_val = self._check(new_val)
        self._tell_inert(new_val)
        local, own = self._local, [new_val]
        try:  # an interrupt may strike anywhere, on the way out too
            local.open += (own,)
            self._overlay(new_val)
            yield
        finally:
            try:
                self._close(own)
            except BaseException:
                self._close(own)
                raise

    def _close(self, block: list[Any]) -> None:
        # Blocks in generators and coroutines may end in any order: the innermost one still open holds.
        local = self._local
        local.open = tuple([other for other in local.open if other is not block])
        self._overlay(local.open[-1][0] if local.open else UNSET)

    def __repr__(self) -> str:
        return f"<option {self.name}={self.value!r}>"


def cache_key() -> tuple[Any, ...]:
    """What programs depend on besides their functions: `generation`, and the values of the keyed settings."""
    local, now = _key, _epoch
    if local.epoch != now:
        local.key = tuple([option.value for option in _keyed])
        local.epoch = now
    return local.key


def keyed_values(key: tuple[Any, ...]) -> dict[str, Any]:
    """What a `cache_key` says: name -> value."""
    return {option.name: value for option, value in zip(_keyed, key)}


def unchanged(key: tuple[Any, ...], others: int) -> bool:
    """Whether what was made under `key`, a `cache_key()`, may be remembered under it: it is still the key, and no other
    thread has changed anything since `others`, an answer of `generation.elsewhere()` from before."""
    return others == generation.elsewhere() and key == cache_key()


@contextmanager
def restored(key: tuple[Any, ...]) -> Iterator[None]:
    """Run a block under the settings of an earlier `cache_key()`, in this thread; rule tables stay as they are."""
    with ExitStack() as blocks:
        for option, value in zip(_keyed, key):
            if isinstance(option, Option) and option.value != value:
                blocks.enter_context(option(value))
        yield


def watch_keyed(tell: Callable[[Option | Generation], None]) -> None:
    """Call `tell` for `generation` and every setting that programs depend on: those there are, and each made later."""
    _keyed_watchers.append(tell)
    for option in _keyed:
        tell(option)
