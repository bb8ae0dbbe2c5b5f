"""Helpers of custom derivative rules: symbolic zeros, and checks of the values that a rule returns."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from typing_extensions import override
from lamina_ir import ShapedArray, dtypes, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import CacheKey, Function, StaticValue, Tree, Value
from lamina_tracing import lax
from lamina_tracing.extend import as_tuple, function_name, parameter_names, PositionalSignature, Trace, typeof

from .._engine.arg_checks import float0_zeros, zeros_of
from .._engine.jvp_trace import JVPTracer
from .._typing import Tangent

__all__ = ["Arguments", "SymbolicZero", "check_type", "output_path", "refuse_closures", "staging_rules", "tangent_aval",
           "zero_from_primal", "zero_tangent"]


class _Staging(threading.local):
    """Calls whose rules this thread is staging; a rule may call its own function."""

    def __init__(self) -> None:
        self.calls: set[CacheKey] = set()


_staging = _Staging()


@contextmanager
def staging_rules(f: object, avals: Sequence[ShapedArray], tree: PyTreeDef) -> Iterator[bool]:
    """Mark the rules of this call as being staged; yield whether an enclosing frame stages them already."""
    key = id(f), tuple(avals), tree
    nested = key in _staging.calls
    _staging.calls.add(key)
    try:
        yield nested
    finally:
        if not nested:
            _staging.calls.discard(key)


class SymbolicZero:
    """A tangent or cotangent known to be zero, as rules with `symbolic_zeros=True` see it; a leaf of trees.

    >>> from lamina_ir import aval_of
    >>> SymbolicZero(aval_of(1.0)).instantiate()
    Array(0., dtype=float32, weak_type=True)
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: len(self.aval.shape))

    def instantiate(self) -> Value:
        """Return the zeros as an array."""
        return zeros_of(self.aval)

    @override
    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_long()})"


def tangent_aval(aval: ShapedArray) -> ShapedArray | None:
    """Return the aval of tangents and cotangents; None for integers, whose tangents have dtype float0."""
    return aval.strip_weak_type() if dtypes.is_inexact(aval.dtype) else None


def zero_tangent(aval: ShapedArray, symbolic: bool) -> Value:
    """Return the zero tangent passed to a rule: a `SymbolicZero` or an array of zeros."""
    if dtypes.is_inexact(aval.dtype):
        return SymbolicZero(aval.strip_weak_type()) if symbolic else zeros_of(aval)
    return SymbolicZero(ShapedArray(aval.shape, dtypes.float0, False)) if symbolic else float0_zeros(aval)


def zero_from_primal(val: Tree, symbolic_zeros: bool = False) -> Tree:
    """Return the zero tangent of a value.

    Args:
      val: array or number, or a pytree of them.
      symbolic_zeros: whether to return a `SymbolicZero` instead of an array.
    Returns:
      Zeros of the shape and dtype of `val`; for integers and booleans of dtype `float0`. For a pytree, the tree of them.
    Raises:
      TypeError: a leaf of `val` is not an array or a number.

    >>> zero_from_primal(2.0)
    Array(0., dtype=float32)
    >>> zero_from_primal(2.0, symbolic_zeros=True)
    SymbolicZero(float32[])
    """
    def zero_of_leaf(leaf: Value) -> Value:
        try:
            aval = typeof(leaf)
        except TypeError as error:
            raise type(error)(f"zero_from_primal: val: {error}") from None
        return zero_tangent(aval.strip_weak_type(), symbolic_zeros)
    return trees.tree_map(zero_of_leaf, val)


def output_path(tree: PyTreeDef, i: int) -> str:
    """Return the path of leaf `i` of a tree, such as `['w'][0]`."""
    marked = trees.tree_unflatten(tree, list(range(tree.num_leaves)))
    for path, at in trees.tree_flatten_with_path(marked)[0]:
        if at == i:
            return trees.keystr(path)
    return f"[{i}]"


def check_type(where: Callable[[], str], x: Tangent, wanted: ShapedArray) -> Tangent:
    """Check a (co)tangent that a rule returned and convert weak types; return None for zero, or raise TypeError."""
    if x is None or type(x) is SymbolicZero:
        return None
    inexact = dtypes.is_inexact(wanted.dtype)
    if getattr(x, "dtype", None) == dtypes.float0:
        if inexact:
            raise TypeError(f"{where()} must be {wanted.str_long()}; got float0{list(np.shape(x))}")
        return None
    try:
        got = typeof(x)
    except TypeError:
        raise TypeError(f"{where()} must be an array {wanted.str_long()}; got {type(x).__name__}") from None
    if not inexact:
        if got.shape == wanted.shape and not dtypes.is_inexact(got.dtype):
            return None  # integer zeros, as `zeros_like` makes them
        raise TypeError(f"{where()} must be zeros of dtype float0 (or None), because {wanted.str_long()} has no "
                        f"derivative; got {got.str_long()}")
    if got.shape != wanted.shape:
        raise TypeError(f"{where()} must have shape {list(wanted.shape)}, {wanted.str_long()}; got {got.str_long()}")
    if got.dtype != wanted.dtype:
        if not got.weak_type:
            raise TypeError(f"{where()} must have dtype {wanted.dtype.name}, {wanted.str_long()}; got "
                            f"{got.str_long()}. Convert it with astype")
        x = lax.convert_element_type(x, wanted.dtype)
    return x


def refuse_closures(call: str, name: str, trace: Trace, values: Sequence[Value]) -> None:
    """Raise TypeError if a result of a rule belongs to the trace that runs the rule.

    Then the rule closes over a value that is being differentiated, and that derivative would be lost.
    """
    for x in values:
        if type(x) is JVPTracer and x._trace is trace:
            raise TypeError(
                f"{call} of `{name}`: a rule closes over a value that is being differentiated, {x.aval.str_long()}, so the "
                f"rule cannot give its derivative. Pass the value to `{name}` as an argument (lamina.closure_convert "
                "finds such values), or wrap it in lax.stop_gradient")


class Arguments:
    """Argument signature of a function with rules: positional arguments, some of them not differentiated."""

    def __init__(self, call: str, fun: Function, nondiff_argnums: int | Sequence[int],
                 nondiff_argnames: str | Sequence[str] = ()) -> None:
        if not callable(fun):
            raise TypeError(f"{call}: expected a function; got {type(fun).__name__}: {fun!r:.60}")
        self.call, self.fun = call, fun
        self.name = function_name(fun)
        nums = set(as_tuple(call, "nondiff_argnums", nondiff_argnums, int))
        names = as_tuple(call, "nondiff_argnames", nondiff_argnames, str)
        known = parameter_names(fun) or ()
        for n in names:
            if n not in known:
                raise ValueError(f"{call} of `{self.name}`: nondiff_argnames names `{n}`; the parameters are {known}")
            nums.add(known.index(n))
        counted = {n + len(known) if n < 0 else n for n in nums}
        if any(n < 0 for n in counted):
            raise ValueError(f"{call} of `{self.name}`: nondiff_argnums {sorted(nums)} is out of range: it takes {len(known)} "
                             "positional arguments")
        self.nondiff = tuple(sorted(counted))
        self.resolve = PositionalSignature(call, fun).resolve

    def split(self, args: tuple[Tree, ...]) -> tuple[tuple[Tree, ...], tuple[StaticValue, ...]]:
        """Split into (differentiated arguments, non-differentiated arguments)."""
        nums = self.nondiff
        if not nums:
            return args, ()
        if nums[-1] >= len(args):
            raise ValueError(f"{self.call} of `{self.name}`: nondiff_argnums {nums[-1]} is out of range: it was called with "
                             f"{len(args)} arguments")
        return tuple(a for i, a in enumerate(args) if i not in nums), tuple(args[i] for i in nums)

    def join(self, dyn: Sequence[Tree], static: Sequence[StaticValue]) -> list[Tree]:
        """Merge the arguments again; the inverse of `split`."""
        if not self.nondiff:
            return list(dyn)
        args = list(dyn)
        for n, x in zip(self.nondiff, static):
            args.insert(n, x)
        return args
