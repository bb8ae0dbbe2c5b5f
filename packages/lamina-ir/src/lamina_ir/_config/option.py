"""Settings: a default for the process, overridden per thread in `with` blocks; and the cache key of keyed settings.

Settings are defined in `config` and in the packages that use them. Reading one on a hot path is an attribute read
(`enable_x64.value`). Code that keeps a copy of the state, such as the C++ dispatch, subscribes to changes with `watch`.
"""
from __future__ import annotations

import itertools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import numpy as np
from typing_extensions import override

from .._typing import OptionValue, OptionWatcher
from ..errors import mark_builtin_error

__all__ = ["Generation", "Option", "UNSET", "cache_key", "generation", "is_unchanged", "keyed_values", "options",
           "restoring_settings", "watch_keyed_options"]

options: dict[str, Option] = {}
_keyed: list[Option | Generation] = []
_keyed_watchers: list[Callable[[Option | Generation], None]] = []
_epochs = itertools.count(1)
_epoch = 0  # differs after every change of a keyed option, in any thread


class _Unset:
    @override
    def __repr__(self) -> str:
        return "UNSET"


UNSET = _Unset()  # passed to watchers when a thread's own value ends


class _Overlay(threading.local):
    """A thread's own value, and those of all its open blocks.

    The defaults are class attributes: in a thread without a value, a read then does not raise and catch an exception.
    """

    # Both defaults are shared by all threads, so they must be immutable: a block replaces the tuple.
    value: OptionValue = UNSET
    open: tuple[list[OptionValue], ...] = ()


class _Key(threading.local):
    """A thread's cache key, and the epoch in which it was computed."""

    epoch = -1
    key: tuple[OptionValue, ...] = ()


_key = _Key()


def _new_epoch() -> None:
    global _epoch
    _epoch = next(_epochs)  # not `_epoch += 1`: two threads could then write the same number for two changes


class _Changes(threading.local):
    """The number of changes that a thread has made."""

    made = 0


class _ChangeBlock:
    """The context manager of `generation.changing()`.

    It is stateless and shared, since every rule that an import defines enters it.
    """

    __slots__ = ("generation",)

    def __init__(self, generation: Generation) -> None:
        self.generation = generation

    def __enter__(self) -> None:
        self.generation._lock.acquire()
        self.generation._depth += 1

    def __exit__(self, *error: object) -> None:
        self.generation._depth -= 1
        self.generation._lock.release()


class Generation:
    """The number of the active rules and hooks, the same in all threads.

    It is part of `cache_key()`, so a program made under one number is not found under another. `RuleTable` and the
    hooks set it; if an earlier number returns, the rules of that number are active again. Changes are made in a block
    `with generation.changing():`, one thread at a time.

    Watchers get another number, which never returns. jaxlib needs that: it computes the key of a call before it calls
    Python, which makes the program later, perhaps after a change in another thread. It then caches a program of the new
    rules under a key from before the change; that key must not match when the old rules are active again.
    """

    name = "generation"

    def __init__(self) -> None:
        self.value = 0
        # Reentrant: garbage collection may close a generator, and so end an override in it, inside a block.
        self._lock = threading.RLock()
        self._depth = 0  # open blocks of the thread that holds the lock
        self._changes = 0
        self._thread_changes = _Changes()
        self._block = _ChangeBlock(self)
        self._watchers: list[OptionWatcher] = []
        _keyed.append(self)

    def changing(self) -> _ChangeBlock:
        """Return a context manager for changes: inside, rules may match neither the old nor the new number."""
        return self._block

    def set(self, value: int) -> None:
        """Set the number of the rules that are active now."""
        with self._lock:
            self.value = value
            self.note_change()

    def note_change(self) -> None:
        """Note a change of rules, or of a setting for all threads. Call it in a block of `changing`."""
        self._changes += 1
        self._thread_changes.made += 1
        _new_epoch()
        # Watchers keep copies, so they must see changes in order: the lock of the block ensures that.
        for callback in self._watchers:
            callback(self._changes, False)

    def watch(self, callback: OptionWatcher) -> None:
        """Call `callback(number, False)` now and on every change; a number is never used twice."""
        self._watchers.append(callback)
        callback(self._changes, False)

    def changes_by_other_threads(self) -> int:
        """Return the number of changes that other threads have made.

        Read it before and after computing a result from rules. If the values differ, the result may mix old and new
        rules: use it once, but do not cache it.
        """
        if self._depth and not self._is_locked_by_this_thread():
            return -next(_epochs)  # another thread is in the middle of a change: never equal to another value
        return self._changes - self._thread_changes.made

    def _is_locked_by_this_thread(self) -> bool:
        """Whether this thread holds the lock, if it is held (it is reentrant)."""
        # If another thread holds the lock, a non-blocking attempt fails; the attempt of the holder itself succeeds.
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return True
        return False


generation = Generation()


_SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
# Type of values -> (description of valid values, test). Settings of other types have a `check`.
_KINDS: dict[type, tuple[str, Callable[[object], bool]]] = {
    bool: ("True or False", lambda v: isinstance(v, (bool, int, np.bool_)) and v in (0, 1)),
    int: ("a whole number", lambda v: isinstance(v, (int, np.integer)) and not isinstance(v, bool)),
    float: ("a number", lambda v: isinstance(v, (int, float, np.integer, np.floating)) and not isinstance(v, bool)),
    str: ("a string", lambda v: isinstance(v, str))}
# The page of `help()`, below the sentence of the setting.
_USAGE = ("Setting `{name}`, by default {default!r}. `config.{name}.value` reads it, `with config.{name}(value):` sets it in "
          "this thread,\n`config.update({name!r}, value)` in the process. The environment variable LAMINA_{env} sets the "
          "initial value.")
_LIBRARY = ("lamina", "lamina_ir", "contextlib")  # frames that a warning skips


def _from_environment(names: tuple[str, ...], also: str) -> tuple[str, str] | None:
    """Return (name, text) of the first non-empty environment variable of a setting; None if there is none."""
    # LAMINA_ first, so that a process can deviate from the JAX_ variables that scripts for JAX set.
    for variable in (*[prefix + name.upper() for name in names for prefix in ("LAMINA_", "JAX_")], *([also] if also else [])):
        text = os.environ.get(variable)
        if text:
            return variable, text
    return None


class Option:
    """A setting: `.value` reads it, `.set(v)` changes the default, `with option(v):` overrides it in this thread.

    Args:
      name: as in `config.update(name, value)`. The environment variable `LAMINA_<NAME>` or `JAX_<NAME>` sets the
        initial default.
      default: the initial value. Without `choices` and `check`, values must have its type.
      choices: the allowed values, or None for any.
      check: called with a value before it is set; raises ValueError or TypeError if the value is invalid.
      keyed: whether programs depend on it; it is then part of the keys of staged and compiled programs.
      help: one line.
      aliases: other names of the setting.
      means: other spellings of values -> values, such as `{None: "allow"}`.
      no_effect_reason: why values other than the default have no effect; setting one warns once with this reason.
      env: a further environment variable.
      kind: the type of the values; by default that of `default`.

    Attributes:
      ever_enabled: whether the value was ever true in this process. A plain attribute, for the hottest paths.
      initial: the default passed to the constructor, without the environment.
    """

    ever_enabled = False

    def __init__(self, name: str, default: OptionValue, *, choices: tuple[OptionValue, ...] | None = None,
                 check: Callable[[OptionValue], object] | None = None, keyed: bool = False, help: str = "",
                 aliases: tuple[str, ...] = (),
                 means: Mapping[OptionValue, OptionValue] | None = None, no_effect_reason: str = "", env: str = "",
                 kind: type | None = None) -> None:
        self.name = name
        self.choices = choices
        self.check = check
        self.keyed = keyed
        self.help = help
        self.__doc__ = f"{help[:1].upper()}{help[1:]}.\n\n{_USAGE.format(name=name, default=default, env=name.upper())}"
        self.aliases, self.means, self.no_effect_reason, self.env = aliases, means, no_effect_reason, env
        self._warned = False
        self._local = _Overlay()
        self._watchers: list[OptionWatcher] = []
        self.initial = self._default = default
        self.kind = kind or type(default)
        found = _from_environment((name, *aliases), env)
        if found is not None:
            self._default = self.parse(found[1], f"the environment variable {found[0]}")
            self._warn_no_effect(self._default)
        # Whether the value was true in some thread; whether it was true in all threads all the time.
        self.ever_enabled = self.enabled_in_all_threads = bool(self._default)
        self._was_disabled_in_thread = False
        for known_as in (name, *aliases):
            options[known_as] = self
        if keyed:
            _keyed.append(self)
            self._changed()
            for callback in _keyed_watchers:
                callback(self)

    def _changed(self) -> None:
        if self.keyed:
            _new_epoch()

    def parse(self, text: str, source: str) -> OptionValue:
        """Parse the text of a value; error messages name `source`, where the text was found."""
        text = text.strip()
        if text.lower() in (self.choices or ()):
            return text.lower()
        if self.means is not None and text in self.means:
            return self.means[text]
        if self.kind is bool:
            if text.lower() not in _SWITCHES:
                more = "".join(f", {c}" for c in self.choices or () if isinstance(c, str))
                raise mark_builtin_error(ValueError(f"config {self.name}: {source} must be 1 or 0, true or false, yes or "
                                                    f"no, on or off{more}; got {text!r}"))
            return _SWITCHES[text.lower()]
        if text.lower() in ("", "none") and self.initial is None:
            return None
        value: OptionValue
        if self.kind in (int, float):
            try:
                value = self.kind(text)
            except ValueError:
                raise mark_builtin_error(ValueError(f"config {self.name}: {source} must be {_KINDS[self.kind][0]}; got "
                                                    f"{text!r}")) from None
        else:
            value = text
        try:
            return self._check(value)
        except (ValueError, TypeError) as error:
            raise mark_builtin_error(type(error)(f"{error}, from {source}")) from None

    def _check(self, value: OptionValue) -> OptionValue:
        """Return a value of the kind of this setting; ValueError or TypeError, with their codes, if it is invalid."""
        try:
            return self._convert(value)
        except (TypeError, ValueError) as error:
            mark_builtin_error(error)
            raise

    def _convert(self, value: OptionValue) -> OptionValue:
        if self.means is not None and isinstance(value, Hashable) and value in self.means:
            value = self.means[value]
        if self.choices is not None:
            if not isinstance(value, Hashable) or value not in self.choices:
                raise ValueError(f"config {self.name}: expected one of {self.choices}; got {value!r:.200}")
        # None is a valid value of any setting whose default is None.
        elif self.kind in _KINDS and not (value is None and self.initial is None):
            expected, is_valid = _KINDS[self.kind]
            if is_valid(value):
                value = self.kind(value)
                if self.kind is bool:
                    return value  # `check` tests only other values
            elif self.kind is not bool or self.check is None:
                or_none = " or None" if self.initial is None else ""
                raise ValueError(f"config {self.name}: expected {expected}{or_none}; got {value!r:.200}")
        if self.check is not None:
            self.check(value)
        return value

    def set_check(self, check: Callable[[OptionValue], object]) -> None:
        """Set the check of values, and apply it to a value from the environment.

        Args:
          check: as in the constructor.

        >>> from lamina_ir import config
        >>> config.default_matmul_precision.set_check(config.default_matmul_precision.check)
        """
        self.check = check
        found = _from_environment((self.name, *self.aliases), self.env)
        if found is not None:
            self.parse(found[1], f"the environment variable {found[0]}")

    def _warn_no_effect(self, value: OptionValue) -> None:
        """Warn, once, that a value other than the default has no effect."""
        if self.no_effect_reason and not self._warned and value != self.initial:
            frame, level = sys._getframe(1), 2
            while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARY:
                frame, level = frame.f_back, level + 1
            self._warned = True
            warnings.warn(f"config {self.name}: {value!r} has no effect: {self.no_effect_reason}", stacklevel=level)

    @property
    def value(self) -> OptionValue:
        own = self._local.value
        return self._default if own is UNSET else own

    @property
    def thread_value(self) -> OptionValue:
        """The value that this thread set in a block; `UNSET` if it uses the default."""
        return self._local.value

    def __bool__(self) -> bool:
        return bool(self.value)

    def set(self, value: OptionValue) -> None:
        """Change the default, for all threads that are not in a block of their own."""
        value = self._check(value)
        self._warn_no_effect(value)
        with generation.changing():
            self._default = value
            self.ever_enabled = self.ever_enabled or bool(value)
            # Once a thread has disabled the setting, a block with that value may be open anywhere. So the flag, which
            # replaces a look at the thread's own value, must stay false.
            self.enabled_in_all_threads = bool(value) and not self._was_disabled_in_thread
            if self.keyed:
                generation.note_change()
        for callback in self._watchers:
            callback(self._default, False)

    def watch(self, callback: OptionWatcher) -> None:
        """Call `callback(value, is_local)` now and on every change.

        When a block ends, the call is `callback(UNSET, True)`. If this thread is in a block now, `callback` also gets
        its value.
        """
        self._watchers.append(callback)
        callback(self._default, False)
        if self._local.value is not UNSET:
            callback(self._local.value, True)

    def _set_in_thread(self, value: OptionValue) -> None:
        if value is UNSET:
            # Idempotent, since `__call__` may close a block twice. The class attribute is visible again.
            vars(self._local).pop("value", None)
        else:
            self._local.value = value
            self.ever_enabled = self.ever_enabled or bool(value)
            if not value:
                self._was_disabled_in_thread, self.enabled_in_all_threads = True, False
        self._changed()
        for callback in self._watchers:
            callback(value, True)

    @contextmanager
    def __call__(self, new_val: OptionValue = True) -> Iterator[None]:
        new_val = self._check(new_val)
        self._warn_no_effect(new_val)
        # A list, because blocks are compared by identity: two open blocks may set equal values.
        local, block = self._local, [new_val]
        try:  # KeyboardInterrupt may come anywhere, also while the block is closed: then close it again
            local.open += (block,)
            self._set_in_thread(new_val)
            yield
        finally:
            try:
                self._close(block)
            except BaseException:
                self._close(block)
                raise

    def _close(self, block: list[OptionValue]) -> None:
        # Blocks in generators and coroutines may end in any order; the innermost open one is active.
        local = self._local
        local.open = tuple([other for other in local.open if other is not block])
        self._set_in_thread(local.open[-1][0] if local.open else UNSET)

    @override
    def __repr__(self) -> str:
        return f"<option {self.name}={self.value!r}>"


def cache_key() -> tuple[OptionValue, ...]:
    """Return what programs depend on besides their functions: `generation` and the values of the keyed settings."""
    # Read the epoch before the values. Every change writes its value before it starts a new epoch. So a change in
    # between makes this key stale at the next call, instead of storing an old value under the new epoch.
    local, epoch = _key, _epoch
    if local.epoch != epoch:
        # `Option.value`, inlined: a change of any rule or setting recomputes all values.
        local.key = tuple([option._default if type(option) is Option and option._local.value is UNSET else option.value
                           for option in _keyed])
        local.epoch = epoch
    return local.key


def keyed_values(key: tuple[OptionValue, ...]) -> dict[str, OptionValue]:
    """Return the values in a `cache_key()`, as name -> value."""
    return {option.name: value for option, value in zip(_keyed, key)}


def is_unchanged(key: tuple[OptionValue, ...], changes_before: int) -> bool:
    """Whether a result computed under `key`, a `cache_key()`, may be cached under it.

    It may if `key` is still the key, and if no other thread has changed anything since `changes_before`, an earlier
    value of `generation.changes_by_other_threads()`.
    """
    return changes_before == generation.changes_by_other_threads() and key == cache_key()


@contextmanager
def restoring_settings(key: tuple[OptionValue, ...]) -> Iterator[None]:
    """Run a block under the settings of an earlier `cache_key()`, in this thread; rule tables do not change."""
    with ExitStack() as blocks:
        for option, value in zip(_keyed, key):
            if isinstance(option, Option) and option.value != value:
                blocks.enter_context(option(value))
        yield


def watch_keyed_options(callback: Callable[[Option | Generation], None]) -> None:
    """Call `callback` for `generation` and every keyed setting: the existing ones now, others when they are made."""
    _keyed_watchers.append(callback)
    for option in _keyed:
        callback(option)
