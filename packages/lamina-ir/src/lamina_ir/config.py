"""Scoped settings: one global default, overlaid per thread inside `with` blocks.

A setting read on hot paths is a plain attribute read (`enable_x64.value`); rooms with state of their own (the C++
dispatch, say) subscribe with `watch` and are told of each change.
"""
from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Option", "cache_key", "debug_nans", "default_matmul_precision", "disable_jit", "enable_x64",
           "numpy_dtype_promotion", "numpy_rank_promotion", "options", "threefry_partitionable", "traceback_filtering",
           "update"]

options: dict[str, Option] = {}
_UNSET = object()


class _Overlay(threading.local):
    """A thread's own value. The class attribute saves an exception on each read where there is none."""

    value: Any = _UNSET


class Option:
    """One setting: `.value` reads it, `.set(v)` changes the default, `with option(v):` overlays it in this thread.

    Args:
      name: as in `config.update(name, value)`; the environment variable `LAMINA_<NAME>` sets the initial default.
      default: initial value.
      choices: allowed values, or None for any.
      keyed: whether compiled programs depend on it, so that it belongs to cache keys.
      help: one line.
    """

    def __init__(self, name: str, default: Any, *, choices: tuple[Any, ...] | None = None, keyed: bool = False,
                 help: str = "") -> None:
        self.name = name
        self.choices = choices
        self.keyed = keyed
        self.help = help
        self._local = _Overlay()
        self._watchers: list[Callable[[Any, bool], None]] = []
        self._default = default
        text = os.environ.get("LAMINA_" + name.upper()) or os.environ.get("JAX_" + name.upper())
        if text is not None:
            self._default = self._parse(text)
        options[name] = self

    def _parse(self, text: str) -> Any:
        if isinstance(self._default, bool):
            return text.strip().lower() in ("1", "true", "yes", "on")
        return None if text.strip().lower() in ("", "none") else text

    def _check(self, value: Any) -> Any:
        if isinstance(self._default, bool) and self.choices is None:
            if value not in (True, False):
                raise ValueError(f"config {self.name}: expected True or False; got {value!r}")
            return bool(value)
        if self.choices is not None and value not in self.choices:
            raise ValueError(f"config {self.name}: expected one of {self.choices}; got {value!r}")
        return value

    @property
    def value(self) -> Any:
        own = self._local.value
        return self._default if own is _UNSET else own

    def set(self, value: Any) -> None:
        """Change the default for all threads without an overlay of their own."""
        self._default = self._check(value)
        for tell in self._watchers:
            tell(self._default, False)

    def watch(self, tell: Callable[[Any, bool], None]) -> None:
        """Call `tell(value, is_local)` now and on every change; a local change that ends tells `(None, True)`."""
        self._watchers.append(tell)
        tell(self._default, False)

    @contextmanager
    def __call__(self, value: Any) -> Iterator[None]:
        value = self._check(value)
        old = self._local.value
        self._local.value = value
        for tell in self._watchers:
            tell(value, True)
        try:
            yield
        finally:
            if old is _UNSET:
                del self._local.value
            else:
                self._local.value = old
            for tell in self._watchers:
                tell(None if old is _UNSET else old, True)

    def __repr__(self) -> str:
        return f"<option {self.name}={self.value!r}>"


enable_x64 = Option("enable_x64", False, keyed=True, help="64-bit integers, floats and complex numbers")
disable_jit = Option("disable_jit", False, help="run jitted functions op by op")
numpy_dtype_promotion = Option("numpy_dtype_promotion", "standard", choices=("standard", "strict"),
                               help="'strict' refuses implicit promotion between dtypes")
numpy_rank_promotion = Option("numpy_rank_promotion", "allow", choices=("allow", "warn", "raise"),
                              help="what to do when broadcasting adds axes")
default_matmul_precision = Option("default_matmul_precision", None, keyed=True, help="precision of dot_general")
threefry_partitionable = Option("threefry_partitionable", False, keyed=True,
                                help="random bits from each element's own counter, as newer jax-style systems draw them")
debug_nans = Option("debug_nans", False, help="raise where a NaN first appears")
traceback_filtering = Option("traceback_filtering", True, help="hide lamina's own frames in tracebacks")


def update(name: str, value: Any) -> None:
    """Change a setting by name, as `config.update("enable_x64", True)`; a `jax_` prefix is accepted."""
    option = options.get(name.removeprefix("jax_"))
    if option is None:
        raise AttributeError(f"config.update: no setting {name!r}; there are {', '.join(sorted(options))}")
    option.set(value)


def cache_key() -> tuple[Any, ...]:
    """Values of the settings that compiled programs depend on."""
    return (enable_x64.value, default_matmul_precision.value, numpy_dtype_promotion.value,
            numpy_rank_promotion.value, threefry_partitionable.value)
