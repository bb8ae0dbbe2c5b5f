"""Calls without a backend that were made before with arguments of the same types: their programs are found again at a third of
the cost of flattening the arguments as trees and asking for their types.

Found are calls with arrays, numbers, tuples and lists of these, and static arguments that are small and plain; all others go
the usual way. The identity of a type stands for it in keys, which an entry may do because it holds the types.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
from lamina_ir import aval_of, config, trees

from . import slots
from .host_array import HostArray
from .jit_spec import JitSpec, Staged
from .numpy_evaluator import NumPyEvaluator

__all__ = ["QuickCalls"]

_MOST = 256  # per function; beyond that all are forgotten
Run = Callable[[list[Any]], Any]
_PLAIN = frozenset((int, bool, str, type(None)))


class QuickCalls:
    """The staged programs of one jitted function, by the types of its arguments.

    Args:
      spec: what is jitted.
    """

    __slots__ = ("spec", "usable", "_dynamic", "_state")
    _state: tuple[Any, dict[Any, tuple[Run, Any]]]

    def __init__(self, spec: JitSpec) -> None:
        self.spec = spec
        self.usable = type(spec.fun) is FunctionType  # a bound method's programs are kept while its object stays as it is
        self._dynamic = min(spec.statics.nums, default=1 << 30)  # how many arguments by position are no static ones
        self._state = None, {}

    def key(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, list[Any], list[Any]] | None:
        """(what stands for the types and static arguments, flat dynamic arguments, types); None: the usual way."""
        key: list[Any] = []
        flat: list[Any] = []
        held: list[Any] = []
        if len(args) <= self._dynamic:
            if not _read(args, key, flat, held):
                return None
        else:
            nums = self.spec.statics.nums
            for i, x in enumerate(args):
                if not (_plain(x, key) if i in nums else _read((x,), key, flat, held)):
                    return None
        if kwargs:
            names = self.spec.statics.names
            for name, x in kwargs.items():
                key.append(name)
                if name not in names or not _plain(x, key):
                    return None
        return tuple(key), flat, held

    def find(self, key: Any) -> Run | None:
        """What runs the program remembered under `key`, as the settings and rows are now: a function of the flat arguments."""
        settings, found = self._state
        now = config.cache_key()
        if settings is not now and settings != now or not self.spec.programs:
            return None
        entry = found.get(key)
        return None if entry is None else entry[0]

    def remember(self, key: Any, held: list[Any], staged: Staged, settings: Any, others: int) -> None:
        """Remember a program that was found or staged after `settings` and `others` were read."""
        if not config.unchanged(settings, others):
            return
        if self._state[0] != settings or len(self._state[1]) >= _MOST:
            self._state = settings, {}  # both at once: another thread may be reading
        self._state[1][key] = _run(staged), held


def _run(staged: Staged) -> Run:
    evaluator = slots.evaluator
    if type(evaluator) is NumPyEvaluator:
        run = evaluator.prepared(staged.closed)
    else:
        run = partial(evaluator.program, staged.closed)
    tree = staged.out_tree
    if trees.treedef_is_leaf(tree):
        return lambda flat: run(flat)[0]
    return lambda flat: tree.unflatten(run(flat))


def _plain(x: Any, key: list[Any]) -> bool:
    kind = type(x)
    key.append(kind)
    if kind in _PLAIN:
        key.append(x)
        return True
    if kind is tuple:
        key.append(len(x))
        return all(_plain(e, key) for e in x)
    return False


def _read(xs: Iterable[Any], key: list[Any], flat: list[Any], held: list[Any]) -> bool:
    """Take dynamic arguments apart; False where there is one of another kind."""
    for x in xs:
        kind = type(x)
        if kind is HostArray:
            try:
                aval = x._known[0]  # whether 64 bits count as 32 is one of the settings
            except AttributeError:
                aval = aval_of(x)
            held.append(aval)
            key.append(id(aval))
        elif kind is np.ndarray:
            try:
                aval = aval_of(x)
            except (TypeError, ValueError):  # of another dtype: the usual way says which argument it is
                return False
            held.append(aval)
            key.append(id(aval))
        elif kind is float or kind is bool or kind is int and -2**31 <= x < 2**31:
            key.append(kind)
        elif kind is tuple or kind is list:
            key.append(kind)
            key.append(len(x))
            if not _read(x, key, flat, held):
                return False
            continue
        else:
            return False
        flat.append(x)
    return True
