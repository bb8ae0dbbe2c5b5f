"""Scoped settings: one global default, overlaid per thread inside `with` blocks.

A setting read on hot paths is a plain attribute read (`enable_x64.value`); rooms with state of their own (the C++
dispatch, say) subscribe with `watch` and are told of each change.
"""
from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["Generation", "Option", "UNSET", "cache_key", "check_tracer_leaks", "debug_bounds", "debug_infs", "debug_nans",
           "default_matmul_precision", "disable_jit", "enable_x64", "evaluate_max_bytes", "explain_cache_misses",
           "generation", "keyed_values", "log_compiles", "numpy_dtype_promotion", "numpy_rank_promotion", "options", "read",
           "replicated_counts_once", "restored", "threefry_partitionable", "traceback_filtering", "unchanged", "update",
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


class Option:
    """One setting: `.value` reads it, `.set(v)` changes the default, `with option(v):` overlays it in this thread.

    Args:
      name: as in `config.update(name, value)`; the environment variable `LAMINA_<NAME>` sets the initial default.
      default: initial value.
      choices: allowed values, or None for any.
      check: called with a value that is to be set; raises ValueError or TypeError when it will not do.
      keyed: whether programs depend on it, so that it belongs to the keys of staged and compiled ones.
      help: one line.

    Attributes:
      ever: whether it has been anything but false since the process began: a plain attribute, for the hottest of paths.
    """

    ever = False

    def __init__(self, name: str, default: Any, *, choices: tuple[Any, ...] | None = None,
                 check: Callable[[Any], object] | None = None, keyed: bool = False, help: str = "") -> None:
        self.name = name
        self.choices = choices
        self.check = check
        self.keyed = keyed
        self.__doc__ = self.help = help
        self._local = _Overlay()
        self._watchers: list[Callable[[Any, bool], None]] = []
        self._default = default
        text = os.environ.get("LAMINA_" + name.upper()) or os.environ.get("JAX_" + name.upper())
        if text:
            self._default = self._parse(text)
        self.ever = bool(self._default)
        options[name] = self
        if keyed:
            _keyed.append(self)
            self._changed()
            for tell in _keyed_watchers:
                tell(self)

    def _changed(self) -> None:
        if self.keyed:
            _new_epoch()

    def _parse(self, text: str) -> Any:
        text = text.strip()
        if text.lower() in (self.choices or ()):
            return text.lower()
        if isinstance(self._default, bool):
            if text.lower() not in _SWITCHES:
                more = "".join(f", {c}" for c in self.choices or () if isinstance(c, str))
                raise ValueError(f"config {self.name}: the environment variable must be 1 or 0, true or false, yes or no, on "
                                 f"or off{more}; got {text!r}")
            return _SWITCHES[text.lower()]
        if isinstance(self._default, int):
            if not text.lstrip("-").isdigit():
                raise ValueError(f"config {self.name}: the environment variable must be a whole number; got {text!r}")
            return int(text)
        if text.lower() in ("", "none"):
            return None
        return self._check(text)

    def _check(self, value: Any) -> Any:
        if isinstance(self._default, bool) and self.choices is None:
            if value in (True, False):
                return bool(value)
            if self.check is None:
                raise ValueError(f"config {self.name}: expected True or False; got {value!r}")
        if self.choices is not None and value not in self.choices:
            raise ValueError(f"config {self.name}: expected one of {self.choices}; got {value!r}")
        if self.check is not None:
            self.check(value)
        return value

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
        with generation.changing():
            self._default = value
            self.ever = self.ever or bool(value)
            if self.keyed:
                generation.count()
        for tell in self._watchers:
            tell(self._default, False)

    def watch(self, tell: Callable[[Any, bool], None]) -> None:
        """Call `tell(value, is_local)` now and on every change; a local change that ends tells `(UNSET, True)`."""
        self._watchers.append(tell)
        tell(self._default, False)

    def _overlay(self, value: Any) -> None:
        if value is UNSET:
            vars(self._local).pop("value", None)
        else:
            self._local.value = value
            self.ever = self.ever or bool(value)
        self._changed()
        for tell in self._watchers:
            tell(value, True)

    @contextmanager
    def __call__(self, value: Any = True) -> Iterator[None]:
        value = self._check(value)
        local, own = self._local, [value]
        try:  # an interrupt may strike anywhere, on the way out too
            local.open += (own,)
            self._overlay(value)
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


def _set_of_axes(value: Any) -> None:
    if type(value) is not frozenset:
        raise ValueError(f"config replicated_counts_once: expected True, False, or a frozenset of names of axes; got {value!r}")


enable_x64 = Option("enable_x64", False, keyed=True, help="64-bit integers, floats and complex numbers")
disable_jit = Option("disable_jit", False, help="run jitted functions op by op")
numpy_dtype_promotion = Option("numpy_dtype_promotion", "standard", choices=("standard", "strict"), keyed=True,
                               help="'strict' refuses implicit promotion between dtypes")
numpy_rank_promotion = Option("numpy_rank_promotion", "allow", choices=("allow", "warn", "raise"), keyed=True,
                              help="what to do when broadcasting adds axes")
default_matmul_precision = Option("default_matmul_precision", None, keyed=True, help="precision of dot_general")
threefry_partitionable = Option("threefry_partitionable", False, keyed=True,
                                help="random bits from each element's own counter, as newer jax-style systems draw them")
replicated_counts_once = Option("replicated_counts_once", False, keyed=True, check=_set_of_axes,
                                help="derivatives inside of maps take a value that is the same on all members for one value: "
                                     "over all axes, none, or those of a frozenset of names")
debug_nans = Option("debug_nans", False, keyed=True, help="raise where a NaN first appears")
debug_bounds = Option("debug_bounds", False, keyed=True, help="raise where an index leaves its axis")
debug_infs = Option("debug_infs", False, keyed=True, help="raise where an infinity first appears")
traceback_filtering = Option("traceback_filtering", True, choices=(True, False, "off", "auto", "remove_frames",
                                                                   "quiet_remove_frames", "tracebackhide"),
                             help="hide lamina's own frames in tracebacks: remove them, or only mark them "
                                  "('tracebackhide') for tools that hide such frames; False or 'off' shows them")
check_tracer_leaks = Option("check_tracer_leaks", False, keyed=True,
                            help="raise when a traced value outlives its trace")
log_compiles = Option("log_compiles", False, help="log each staging and compilation, with times, as a warning")
explain_cache_misses = Option("explain_cache_misses", False,
                              help="log why a jitted function is staged or compiled again")
evaluate_max_bytes = Option("evaluate_max_bytes", 2**32, check=lambda value: _whole("evaluate_max_bytes", value),
                            help="most bytes that the values of a program may take at once in the NumPy evaluator; 0: no limit")


def _whole(name: str, value: Any) -> None:
    if type(value) is not int or value < 0:
        raise ValueError(f"config {name}: expected a whole number, 0 or more; got {value!r}")


def _unknown(call: str, name: str) -> AttributeError:
    from difflib import get_close_matches  # takes 5 ms to load
    near = get_close_matches(name.removeprefix("jax_"), options, n=1)
    hint = f"did you mean {near[0]!r}? There" if near else "there"
    return AttributeError(f"{call} no setting {name!r}; {hint} are {', '.join(sorted(options))}")


def _named(call: str, name: str) -> Option:
    option = options.get(name.removeprefix("jax_"))
    if option is None:
        raise _unknown(f"config.{call}:", name)
    return option


def update(name: str, value: Any) -> None:
    """Change a setting by name, as `config.update("enable_x64", True)`; a `jax_` prefix is accepted."""
    _named("update", name).set(value)


def read(name: str) -> Any:
    """A setting's value in this thread by name; a `jax_` prefix is accepted.

    >>> read("jax_numpy_rank_promotion")
    'allow'
    """
    return _named("read", name).value


def __getattr__(name: str) -> Any:
    """`config.jax_enable_x64` is the value of `enable_x64`; settings of other rooms are found by their names."""
    if name.startswith("jax_") and name[4:] in options:
        return options[name[4:]].value
    if name in options:
        return options[name]
    if name == "config":  # `from lamina.config import config`, as older programs say it
        return sys.modules[__name__]
    if name.startswith("__"):  # Python asks for `__path__` at every `from .config import ...`
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise _unknown("config has", name)


class _Module(ModuleType):
    """`config.enable_x64 = True` is `config.update("enable_x64", True)`."""

    def __reduce__(self) -> Any:
        return import_module, (self.__name__,)

    def __setattr__(self, name: str, value: Any) -> None:
        option = options.get(name.removeprefix("jax_"))
        if option is not None:
            option.set(value)
        elif name.startswith("_") or name in vars(self):
            super().__setattr__(name, value)
        else:
            raise _unknown("config has", name)


sys.modules[__name__].__class__ = _Module


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
