"""What is remembered of functions, and goes with them: programs, by the types they were staged for."""
from __future__ import annotations

import weakref
from types import MethodType
from typing import Any

from .methods import stand_in

__all__ = ["PerFunction"]


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
        found again as long as its object lives and stays as it is: see `methods`."""
        if type(fun) is MethodType:
            fun = stand_in(fun) or fun
        try:
            found = self._tables.get(fun)
            if found is None:
                found = self._tables.setdefault(fun, {})
                if len(self._tables) > self.most:
                    self._forget_older_half()
        except TypeError:
            return {}
        return found

    def _forget_older_half(self) -> None:
        for reference in self._tables.keyrefs()[:self.most // 2]:
            fun = reference()
            if fun is not None:
                self._tables.pop(fun, None)
