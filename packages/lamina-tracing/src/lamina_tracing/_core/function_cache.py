"""Caches per function: a table for each function, such as its programs by argument types, freed with the function."""
from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np
from lamina_ir.typing import CacheKey, Function, StaticValue, Tree

from .bound_method_key import BoundMethodKey, get_bound_method_key
from .._typing import CacheTable

__all__ = ["FunctionCache", "clear_tables", "evict_if_changed", "function_key"]

_caches: list[FunctionCache] = []  # all of them; each is made by a module


class FunctionCache:
    """Weak-keyed cache: one table (dict) per function.

    A table may reference its own function, through a custom rule that calls it or as a static argument. The garbage
    collector cannot free such a pair in a WeakKeyDictionary. So the number of tables is bounded: the older half is
    dropped, and a dropped table lives on only if something else references it.

    Args:
      max_functions: the maximal number of tables.

    >>> tables = FunctionCache()
    >>> def f(x):
    ...     return x
    >>> tables.get_table(f)["key"] = "program"
    >>> tables.get_table(f), len(tables)
    ({'key': 'program'}, 1)
    """

    def __init__(self, max_functions: int = 512) -> None:
        self.most = max_functions
        self._tables: weakref.WeakKeyDictionary[Function, CacheTable] = weakref.WeakKeyDictionary()
        _caches.append(self)

    def __len__(self) -> int:
        return len(self._tables)

    def get_table(self, fun: Function) -> CacheTable:
        """Return the table of a function; a new, uncached dict if `fun` is not hashable or not weakly referable.

        A bound method has one table as long as its object lives and does not change, see bound_method_key.py. Partial
        applications of one function to the same numbers, strings, dtypes, and tuples of these share a table.
        """
        fun = function_key(fun)
        try:
            found = self._tables.get(fun)
            if found is None:
                # `setdefault`, so that two threads get the same table.
                found = self._tables.setdefault(fun, {})
                if len(self._tables) > self.most:
                    self._drop_older_half()
        except TypeError:
            return {}
        return found

    def tables(self) -> list[CacheTable]:
        """Return all cached tables."""
        return list(self._tables.values())

    def drop(self, is_stale: Callable[[Any], object]) -> None:
        """Drop the entries of all tables for whose keys `is_stale` returns true."""
        for table in self.tables():
            for key in list(table):
                if is_stale(key):
                    table.pop(key, None)

    def _drop_older_half(self) -> None:
        # Insertion order, so these are the oldest. Half at once, so that the cost is paid rarely.
        for reference in self._tables.keyrefs()[:self.most // 2]:
            fun = reference()
            if fun is not None:
                self._tables.pop(fun, None)


def clear_tables() -> None:
    """Empty the tables of all caches."""
    for cache in _caches:
        for table in cache.tables():
            table.clear()


class _PartialKey:
    """Cache key of all partial applications of a function to the same arguments; lives as long as the function."""

    __slots__ = ("base", "args", "keywords", "__weakref__")

    def __init__(self, base: Function, args: tuple[StaticValue, ...], keywords: dict[str, StaticValue]) -> None:
        self.base, self.args, self.keywords = weakref.ref(base), args, keywords

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        return self.base()(*self.args, *args, **{**self.keywords, **kwargs})  # type: ignore[misc]  # it lives as long as this


_partials = FunctionCache()  # table of a function: bound arguments -> `_PartialKey`
_MAX_PARTIALS = 256  # keys per function


def function_key(fun: Function) -> Function:
    """Return the cache key of a function: the function itself, or a stable key for a bound method or a partial.

    Bound methods and partials are new objects on every access, so they cannot be weak keys themselves.
    """
    if type(fun) is MethodType:
        return get_bound_method_key(fun) or fun
    if type(fun) is not functools.partial:
        return fun
    try:
        key = _value_key(fun.args), tuple([(name, _value_key(fun.keywords[name])) for name in sorted(fun.keywords)])
        base = function_key(fun.func)
        table = _partials.get_table(base)
        if key not in table:
            while len(table) >= _MAX_PARTIALS:
                del table[next(iter(table))]
            table.setdefault(key, _PartialKey(base, fun.args, fun.keywords))
        return table.get(key, fun)
    except (TypeError, KeyError, RuntimeError, StopIteration):  # mutable arguments, or a race with another thread
        return fun


def _value_key(value: StaticValue) -> CacheKey:
    """Return a key that is equal for values that give equal programs; TypeError if the value may change."""
    kind = type(value)
    if kind is tuple:
        return tuple([_value_key(v) for v in value])
    if kind is float or kind is complex:
        return kind, repr(value)  # not by value: 0.0 == -0.0, but nan != nan
    if (kind in (bool, int, str, bytes, type(None)) or isinstance(value, np.dtype)
            or isinstance(value, type) and (issubclass(value, (np.generic, bool, int, float, complex))
                                            or isinstance(getattr(value, "dtype", None), np.dtype))):
        return kind, value
    raise TypeError


def evict_if_changed(known: Function | None) -> None:
    """Remove the cache key of a bound method whose object has changed, before a program is traced for it."""
    while type(known) is _PartialKey:
        known = known.base()
    if type(known) is BoundMethodKey:
        known.evict_if_changed()
