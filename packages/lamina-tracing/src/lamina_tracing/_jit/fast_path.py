"""Fast path of `jit` without a backend: look up the program of a call by a cheap key of its arguments.

The lookup costs less than flattening the arguments as pytrees and computing their types. It handles arrays, numbers,
tuples and lists of these, and small static arguments; all other calls take the general path. Keys contain `id(aval)`
instead of the type, which is valid because each entry holds references to its types.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import FunctionType

import numpy as np
from lamina_ir import aval_of, config, ShapedArray, trees
from lamina_ir.typing import CacheKey, StaticValue, Tree, Value

from . import hooks
from .._core.host_array import HostArray
from .numpy_evaluator import NumPyEvaluator
from .signature_cache import StagedProgram
from .call_spec import CallSpec

__all__ = ["FastPathCache"]

_MAX_ENTRIES = 256  # per function; a full cache is cleared
Run = Callable[[list[Value]], Tree]
_PLAIN = frozenset((int, bool, str, type(None)))


class FastPathCache:
    """Staged programs of one jitted function, by the types of its arguments.

    Args:
      spec: the jitted function.
    """

    __slots__ = ("spec", "usable", "_num_leading_dynamic", "_state")
    _state: tuple[object, dict[CacheKey, tuple[Run, list[ShapedArray]]]]

    def __init__(self, spec: CallSpec) -> None:
        self.spec = spec
        # A bound method is excluded: its programs are valid only while its object is unchanged (bound_method_key.py).
        self.usable = type(spec.fun) is FunctionType
        self._num_leading_dynamic = min(spec.statics.nums, default=1 << 30)  # arguments before the first static one
        self._state = None, {}  # (settings, key -> (run, types))

    def key(self, args: Sequence[Tree],
            kwargs: dict[str, Tree]) -> tuple[CacheKey, list[Value], list[ShapedArray]] | None:
        """Return (key of the types and static arguments, flat dynamic arguments, types); None: use the general path."""
        key: list[object] = []
        flat: list[Value] = []
        avals: list[ShapedArray] = []
        if len(args) <= self._num_leading_dynamic:
            if not _read_dynamic(args, key, flat, avals):
                return None
        else:
            nums = self.spec.statics.nums
            for i, x in enumerate(args):
                if not (_read_static(x, key) if i in nums else _read_dynamic((x,), key, flat, avals)):
                    return None
        if kwargs:
            names = self.spec.statics.names
            for name, x in kwargs.items():
                key.append(name)
                if name not in names or not _read_static(x, key):
                    return None
        return tuple(key), flat, avals

    def find(self, key: CacheKey) -> Run | None:
        """Return the function of flat arguments cached under `key` for the current settings and rules, or None."""
        settings, found = self._state
        now = config.cache_key()
        # No programs: the cache of the function was cleared, so the entries here must not be used.
        if settings is not now and settings != now or not self.spec.programs:
            return None
        entry = found.get(key)
        return None if entry is None else entry[0]

    def remember(self, key: CacheKey, avals: list[ShapedArray], staged: StagedProgram, settings: tuple[CacheKey, ...],
                 others: int) -> None:
        """Cache a program, if settings and rules are unchanged since `settings` and `others` were read."""
        if not config.is_unchanged(settings, others):
            return
        if self._state[0] != settings or len(self._state[1]) >= _MAX_ENTRIES:
            self._state = settings, {}  # one assignment: another thread may be reading the pair
        self._state[1][key] = _make_runner(staged), avals


def _make_runner(staged: StagedProgram) -> Run:
    evaluator = hooks.evaluator
    if type(evaluator) is NumPyEvaluator:
        run = evaluator.prepare(staged.closed)
    else:
        run = partial(evaluator.program, staged.closed)
    tree = staged.out_tree
    if trees.treedef_is_leaf(tree):
        return lambda flat: run(flat)[0]
    return lambda flat: tree.unflatten(run(flat))


def _read_static(x: StaticValue, key: list[object]) -> bool:
    """Append a static argument to `key`; False if it is not a plain constant or a tuple of these."""
    kind = type(x)
    key.append(kind)
    # With the type before the value, because True == 1. Floats are excluded: 0.0 == -0.0, but not their programs.
    if kind in _PLAIN:
        key.append(x)
        return True
    if kind is tuple:
        key.append(len(x))
        return all(_read_static(e, key) for e in x)
    return False


def _read_dynamic(xs: Iterable[Tree], key: list[object], flat: list[Value], avals: list[ShapedArray]) -> bool:
    """Append dynamic arguments to `key`, `flat` and `avals`; False if one needs the general path."""
    for x in xs:
        kind = type(x)
        if kind is HostArray:
            try:
                aval = x._aval_and_ndarray[0]  # not narrowed: enable_x64 is part of the settings in the cache key
            except AttributeError:
                aval = aval_of(x)
            avals.append(aval)
            key.append(id(aval))
        elif kind is np.ndarray:
            try:
                aval = aval_of(x)
            except (TypeError, ValueError):  # unsupported dtype: the general path names the argument in its error
                return False
            avals.append(aval)
            key.append(id(aval))
        # Larger integers have another type, or raise an error; the general path handles them.
        elif kind is float or kind is bool or kind is int and -2**31 <= x < 2**31:
            key.append(kind)
        elif kind is tuple or kind is list:
            key.append(kind)
            key.append(len(x))
            if not _read_dynamic(x, key, flat, avals):
                return False
            continue
        else:
            return False
        flat.append(x)
    return True
