"""What is remembered of functions, and goes with them: programs, by the types they were staged for."""
from __future__ import annotations

import functools
import weakref
from types import MethodType
from typing import Any

import numpy as np

from .methods import StandIn, stand_in

__all__ = ["PerFunction", "known_as", "retire_if_changed"]


class PerFunction:
    """A table for each function.

    A table may reach its own function: through a custom rule that calls it, or as a static argument. Python's collector
    does not see that such a pair is held by nothing else. So only so many tables are found again, the latest ones; an
    older one stays with whoever else holds it.

    Args:
      most: how many.

    >>> tables = PerFunction()
    >>> def f(x):
    ...     return x
    >>> tables.of(f)["key"] = "program"
    >>> tables.of(f), len(tables)
    ({'key': 'program'}, 1)
    """

    def __init__(self, most: int = 512) -> None:
        self.most = most
        self._tables: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._tables)

    def of(self, fun: Any) -> dict[Any, Any]:
        """The function's table; an unremembered one if it is not hashable or not weakly referable. A bound method's is
        found again as long as its object lives and stays as it is: see `methods`. A partial application's is that of any other
        of the same function with the same numbers, strings, dtypes and tuples of these."""
        fun = known_as(fun)
        try:
            found = self._tables.get(fun)
            if found is None:
                found = self._tables.setdefault(fun, {})
                if len(self._tables) > self.most:
                    self._forget_older_half()
        except TypeError:
            return {}
        return found

    def tables(self) -> list[dict[Any, Any]]:
        """Those that are found again."""
        return list(self._tables.values())

    def _forget_older_half(self) -> None:
        for reference in self._tables.keyrefs()[:self.most // 2]:
            fun = reference()
            if fun is not None:
                self._tables.pop(fun, None)


class _Partial:
    """Stands for all partial applications of a function to the same arguments; lives as long as the function does."""

    __slots__ = ("base", "args", "keywords", "__weakref__")

    def __init__(self, base: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.base, self.args, self.keywords = weakref.ref(base), args, keywords

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.base()(*self.args, *args, **{**self.keywords, **kwargs})  # type: ignore[misc]  # it lives as long as this


_partials = PerFunction()  # of a function: arguments -> what stands for it applied to them
_MOST = 256  # of these, for a function


def known_as(fun: Any) -> Any:
    """What is remembered of a function is remembered under this: the function, or what stands for a bound method or a partial
    application, which are other objects each time they are made."""
    if type(fun) is MethodType:
        return stand_in(fun) or fun
    if type(fun) is not functools.partial:
        return fun
    try:
        key = _plain(fun.args), tuple([(name, _plain(fun.keywords[name])) for name in sorted(fun.keywords)])
        base = known_as(fun.func)
        table = _partials.of(base)
        if key not in table:
            while len(table) >= _MOST:
                del table[next(iter(table))]
            table.setdefault(key, _Partial(base, fun.args, fun.keywords))
        return table.get(key, fun)
    except (TypeError, KeyError, RuntimeError, StopIteration):  # arguments that may change, or another thread was here
        return fun


def _plain(value: Any) -> Any:
    """Equal to another one where a program made of the values is; TypeError where they may change."""
    kind = type(value)
    if kind is tuple:
        return tuple([_plain(v) for v in value])
    if kind is float or kind is complex:
        return kind, repr(value)  # 0.0 and -0.0 are equal, nan is not
    if kind in (bool, int, str, bytes, type(None)) or isinstance(value, np.dtype):
        return kind, value
    raise TypeError


def retire_if_changed(known: Any) -> None:
    """Where a bound method's object has changed, what is staged now is not found by others; asked before staging."""
    while type(known) is _Partial:
        known = known.base()
    if type(known) is StandIn:
        known.retire_if_changed()
