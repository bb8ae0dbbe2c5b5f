"""Combine elements along axes: reductions, positions of extremes, cumulative operations and scans."""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from lamina_ir import DTypeError, dtypes, Primitive, prims, ShapeError, trees
from lamina_ir.typing import Tree, Value

from ..._core.array import Array, DTypeLike
from ..._diagnostics.argument_errors import rename_errors
from .. import elementwise as ew
from .. import shape as sh
from .._util.operands import (ArrayLike, as_dtype, bind, check_axes, check_axis, full_like, is_axis_name,
                             set_public_name, typeof)
from ._named_axes import (argreduce_named_axis, parse_reduction_axes, gather_named_axes, select_member,
                                     reduce_named_axes)
from .._util.reducers import stage_combination, combine_with_init

__all__ = ["argmax", "argmin", "associative_scan", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "reduce",
           "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reduce_xor"]


Axis = int | Hashable  # of an array, or the name of a mapped one


def _reduction(prim: Primitive, does: str, example: str, note: str) -> Callable[[ArrayLike, Sequence[int]], Array]:
    name = prim.name

    def reduction(operand: ArrayLike, axes: Sequence[Axis]) -> Array:
        axes = parse_reduction_axes(name, axes, len(typeof(operand).shape))
        return bind(prim, operand, axes=axes) if axes.__class__ is tuple else reduce_named_axes(prim, operand, axes)  # type: ignore[arg-type]

    return set_public_name(reduction, name, f"""{does} over some axes; negative axes count from the end.

    Args:
      operand: array of any shape.
      axes: the axes to reduce; also names of mapped axes.
    Returns:
      Array of the other axes, dtype of `operand`.

    {note}

    >>> {example}
    """)


_F = "np.array([2., 3.], np.float32)"
_B = "np.array([True, False])"
reduce_sum = _reduction(prims.reduce_sum_p, "Sum", f"reduce_sum({_F}, (0,))\n    Array(5., dtype=float32)",
                        "Derivative: linear; the transpose repeats.")
reduce_prod = _reduction(prims.reduce_prod_p, "Product", f"reduce_prod({_F}, (0,))\n    Array(6., dtype=float32)",
                         "Derivative: exact at zeros too.")
reduce_max = _reduction(prims.reduce_max_p, "Maximum", f"reduce_max({_F}, (0,))\n    Array(3., dtype=float32)",
                        "NaN is the maximum. Derivative: shared by equal maxima.")
reduce_min = _reduction(prims.reduce_min_p, "Minimum", f"reduce_min({_F}, (0,))\n    Array(2., dtype=float32)",
                        "NaN is the minimum. Derivative: shared by equal minima.")
reduce_and = _reduction(
    prims.reduce_and_p, "Bitwise and", f"reduce_and({_B}, (0,))\n    Array(False, dtype=bool)",
    "For boolean and integer arrays.")
reduce_or = _reduction(
    prims.reduce_or_p, "Bitwise or", f"reduce_or({_B}, (0,))\n    Array(True, dtype=bool)",
    "For boolean and integer arrays.")
reduce_xor = _reduction(
    prims.reduce_xor_p, "Bitwise exclusive or", f"reduce_xor({_B}, (0,))\n    Array(True, dtype=bool)",
    "For boolean and integer arrays.")


# --- positions of extremes ----------------------------------------------------------------------------------------
def _arg(prim: Primitive, operand: ArrayLike, axis: Axis, index_dtype: DTypeLike) -> Value:
    dtype = as_dtype(prim.name, "index_dtype", index_dtype)
    if axis.__class__ is not int and is_axis_name(axis):
        return argreduce_named_axis(prim, operand, axis, dtype)
    return bind(prim, operand, axes=(check_axis(prim.name, axis, len(typeof(operand).shape)),), index_dtype=dtype)


def argmax(operand: ArrayLike, axis: Axis, index_dtype: DTypeLike) -> Array:
    """Find the position of the maximum along one axis, or along a named mapped axis: the lowest among equals, the first
    NaN if there is one.

    >>> argmax(np.array([1., 3., 3.], np.float32), 0, "int32")
    Array(1, dtype=int32)
    """
    return _arg(prims.argmax_p, operand, axis, index_dtype)


def argmin(operand: ArrayLike, axis: Axis, index_dtype: DTypeLike) -> Array:
    """Find the position of the minimum along one axis, or along a named mapped axis: the lowest among equals, the first
    NaN if there is one.

    >>> argmin(np.array([1., 3., 1.], np.float32), 0, "int32")
    Array(0, dtype=int32)
    """
    return _arg(prims.argmin_p, operand, axis, index_dtype)


# --- cumulations --------------------------------------------------------------------------------------------------
def _cumulate(prim: Primitive, operand: ArrayLike, axis: Axis, reverse: bool) -> Value:
    if axis.__class__ is not int and is_axis_name(axis):
        return select_member(bind(prim, gather_named_axes(operand, (axis,)), axis=0, reverse=bool(reverse)), axis)
    return bind(prim, operand, axis=check_axis(prim.name, axis, len(typeof(operand).shape)),
                reverse=bool(reverse))


def cumsum(operand: ArrayLike, axis: Axis = 0, reverse: bool = False) -> Array:
    """Running sum along one axis, from its last element when `reverse`.

    Derivative: linear; the transpose is the same sum from the other end.

    >>> cumsum(np.array([1., 2., 3.], np.float32))
    Array([1., 3., 6.], dtype=float32)
    """
    return _cumulate(prims.cumsum_p, operand, axis, reverse)


def cumprod(operand: ArrayLike, axis: Axis = 0, reverse: bool = False) -> Array:
    """Running product along one axis, from its last element when `reverse`.

    >>> cumprod(np.array([1., 2., 3.], np.float32), reverse=True)
    Array([6., 6., 3.], dtype=float32)
    """
    return _cumulate(prims.cumprod_p, operand, axis, reverse)


def cummax(operand: ArrayLike, axis: Axis = 0, reverse: bool = False) -> Array:
    """Running maximum along one axis, from its last element when `reverse`; NaN stays.

    >>> cummax(np.array([1., 3., 2.], np.float32))
    Array([1., 3., 3.], dtype=float32)
    """
    return _cumulate(prims.cummax_p, operand, axis, reverse)


def cummin(operand: ArrayLike, axis: Axis = 0, reverse: bool = False) -> Array:
    """Running minimum along one axis, from its last element when `reverse`; NaN stays.

    >>> cummin(np.array([2., 3., 1.], np.float32))
    Array([2., 2., 1.], dtype=float32)
    """
    return _cumulate(prims.cummin_p, operand, axis, reverse)


def cumlogsumexp(operand: ArrayLike, axis: Axis = 0, reverse: bool = False) -> Array:
    """Running `log(sum(exp(x)))` along one axis, without overflow.

    >>> cumlogsumexp(np.zeros(2, np.float32))
    Array([0.       , 0.6931472], dtype=float32)
    """
    if not dtypes.is_inexact(typeof(operand).dtype):
        raise DTypeError(f"cumlogsumexp: expected floats or complex numbers; got {typeof(operand).str_long()}")
    if axis.__class__ is not int and is_axis_name(axis):
        return select_member(cumlogsumexp(gather_named_axes(operand, (axis,)), 0, reverse), axis)
    return associative_scan(_logaddexp, operand, reverse=reverse,
                            axis=check_axis("cumlogsumexp", axis, len(typeof(operand).shape)))


def _logaddexp(x: Value, y: Value) -> Value:
    if dtypes.is_complex(typeof(x).dtype):
        return complex_logaddexp(x, y)
    top, gap = max_and_gap(x, y)
    return ew.add(top, ew.log1p(ew.exp(gap)))


def max_and_gap(x: Value, y: Value) -> tuple[Value, Value]:
    """Return the larger of two numbers, and the smaller minus the larger. For equal infinities the difference is 0.

    The larger one is selected, not computed. For equal values the derivatives of `max` and `abs` are constant, so second
    derivatives of functions of them would be wrong there. Among equals x counts as the larger.

    Args:
      x, y: arrays of one shape, or one of rank 0, and of one float dtype.
    Returns:
      Two arrays of their shape and dtype; the second holds NaN where x or y is NaN.

    >>> top, gap = max_and_gap(np.array([1., np.inf], np.float32), np.array([3., np.inf], np.float32))
    >>> print(top, gap)
    [ 3. inf] [-2.  0.]
    """
    gap = ew.sub(x, y)
    other = ew.lt(gap, 0.0)
    infinite = ew.bitwise_and(ew.eq(x, y), ew.ne(gap, gap))
    return ew.select(other, y, x), ew.select(infinite, 0.0, ew.select(other, gap, ew.neg(gap)))


def complex_logaddexp(x: Value, y: Value) -> Value:
    """Compute `log(exp(x) + exp(y))` of complex numbers, with the angle in (-pi, pi].

    Args:
      x, y: complex arrays of one shape and dtype.
    Returns:
      An array of their shape and dtype.

    >>> z = complex_logaddexp(np.array([1j], np.complex64), np.array([1j], np.complex64))
    >>> print(np.round(np.exp(np.asarray(z)) / np.exp(1j), 3))
    [2.+0.j]
    """
    first = ew.ge(ew.real(x), ew.real(y))
    top, low = ew.select(first, x, y), ew.select(first, y, x)
    finite = ew.is_finite(ew.real(top))
    gap = ew.select(finite, ew.sub(low, top), full_like(top, 0))
    out = ew.add(top, ew.select(finite, ew.log1p(ew.exp(gap)), gap))
    angle, turn = ew.imag(out), 2 * np.pi
    return ew.complex(ew.real(out), ew.sub(angle, ew.mul(turn, ew.ceil(ew.sub(ew.div(angle, turn), .5)))))


# --- scans by any associative function ----------------------------------------------------------------------------
def associative_scan(fn: Callable[[Tree, Tree], Tree], elems: Tree, reverse: bool = False, axis: int = 0) -> Tree:
    """Combine elements cumulatively along one axis by an associative function, in a logarithmic number of steps.

    Args:
      fn: `fn(a, b)` combines two trees like `elems`, elementwise along `axis`; associative.
      elems: tree of arrays with one length along `axis`.
      reverse: whether to start from the last element.
      axis: the axis.
    Returns:
      Tree like `elems`: at position `i` the combination of positions `0 ... i`.

    Source: Blelloch, "Prefix sums and their applications" (1990).

    >>> associative_scan(lambda a, b: a * b, np.array([1., 2., 3.], np.float32))
    Array([1., 2., 6.], dtype=float32)
    """
    if not callable(fn):
        raise TypeError(f"associative_scan: fn must be a function; got {type(fn).__name__}: {fn!r:.60}")
    leaves, treedef = trees.tree_flatten(elems)
    if not leaves:
        return elems
    axis = check_axis("associative_scan", axis, len(typeof(leaves[0]).shape))
    lengths = {typeof(x).shape[axis] for x in leaves}
    if len(lengths) != 1:
        raise ShapeError(f"associative_scan: arrays must have one length along axis {axis}; got "
                         f"{', '.join(typeof(x).str_long() for x in leaves)}")

    def combine(a: list[Value], b: list[Value]) -> list[Value]:
        out, tree = trees.tree_flatten(fn(trees.tree_unflatten(treedef, a), trees.tree_unflatten(treedef, b)))
        if tree != treedef:
            raise TypeError(f"associative_scan: fn must return a tree like elems, {treedef}; got {tree}")
        return out

    if reverse:
        leaves = [sh.rev(x, (axis,)) for x in leaves]
        out = _scan(combine, leaves, lengths.pop(), axis)
        return trees.tree_unflatten(treedef, [sh.rev(x, (axis,)) for x in out])
    return trees.tree_unflatten(treedef, _scan(combine, leaves, lengths.pop(), axis))


def _scan(combine: Callable[[list[Value], list[Value]], list[Value]], xs: list[Value], n: int,
          axis: int) -> list[Array]:
    """Combine pairs, scan these recursively, then compute the positions in between."""
    if n < 2:
        return xs
    cut = sh.slice_in_dim
    # The scan of x0 x1, x2 x3, ... gives the odd positions of the result. Position 2k is 2k - 1 combined with x[2k].
    pairs = combine([cut(x, 0, n - n % 2, 2, axis) for x in xs], [cut(x, 1, n, 2, axis) for x in xs])
    odd = _scan(combine, pairs, n // 2, axis)
    even = [cut(x, 0, 1, 1, axis) for x in xs]
    if n > 2:
        before = odd if n % 2 else [cut(x, 0, n // 2 - 1, 1, axis) for x in odd]
        rest = combine(before, [cut(x, 2, n, 2, axis) for x in xs])
        even = [sh.concatenate([e, r], axis) for e, r in zip(even, rest, strict=True)]
    return [_interleave(e, o, n, axis) for e, o in zip(even, odd, strict=True)]


def _interleave(even: Value, odd: Value, n: int, axis: int) -> Value:
    half = n // 2
    head = sh.slice_in_dim(even, 0, half, 1, axis) if n % 2 else even
    both = sh.concatenate([sh.expand_dims(head, (axis + 1,)), sh.expand_dims(odd, (axis + 1,))], axis + 1)
    shape = typeof(odd).shape
    out = sh.reshape(both, (*shape[:axis], 2 * half, *shape[axis + 1:]))
    return sh.concatenate([out, sh.slice_in_dim(even, half, half + 1, 1, axis)], axis) if n % 2 else out


# --- reduction by any function ------------------------------------------------------------------------------------
_REDUCTIONS = {prims.add_p: reduce_sum, prims.mul_p: reduce_prod, prims.max_p: reduce_max, prims.min_p: reduce_min,
               prims.and_p: reduce_and, prims.or_p: reduce_or, prims.xor_p: reduce_xor}


@rename_errors
def reduce(operands: Tree, init_values: Tree, computation: Callable[[Tree, Tree], Tree],
           dimensions: Sequence[int]) -> Tree:
    """Combine elements over some axes by an associative function of scalars.

    Sums, products, extremes and bitwise combinations are recognized and recorded as the primitive of that name.

    Args:
      operands: array or tree of arrays of one shape.
      init_values: tree like `operands` of scalars, an identity of `computation`.
      computation: `computation(a, b)` combines two trees of scalars.
      dimensions: the axes to reduce.
    Returns:
      Tree like `operands` of arrays without these axes.

    >>> reduce(np.array([1., 5.], np.float32), 0., lambda a, b: a + b, (0,))
    Array(6., dtype=float32)
    """
    xs, starts, tree, program, monoid = stage_combination("reduce", operands, init_values, computation)
    axes = check_axes("reduce", dimensions, len(typeof(xs[0]).shape))
    if monoid is not None:
        return trees.tree_unflatten(tree, [combine_with_init(monoid, _REDUCTIONS[monoid](xs[0], axes), starts[0])])
    return trees.tree_unflatten(tree, list(bind(prims.reduce_p, *xs, *starts, computation=program, dimensions=axes)))
