"""Sums, products, extremes and their positions along axes.

Integers narrower than the default integer are summed in it; float16 and bfloat16 are summed in float32 and rounded
once at the end.
"""
from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import ShapeError, dtypes, prims
from lamina_tracing import Array, ArrayLike, AxisLike, DTypeLike, lax
from lamina_tracing.extend import check_axis, is_axis_name, typeof, resolve_requested_dtype

from .._core.promotion import aval, broadcast, cast, convert, equation, literal, no_out, pair, work_dtype
from .._core.public_api import public_api
from .._core.axes import with_axes
from .._core.named_axes import axes_of, kept, reduced
from .._core.select import choose_by, truth
from .._elementwise.logic import isnan
from .._shape.layout import ravel

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "max", "min", "nanargmax", "nanargmin",
           "prod", "ptp", "sum"]

_sum, _prod = prims.reduce_sum_p, prims.reduce_prod_p
_max, _min, _and, _or = prims.reduce_max_p, prims.reduce_min_p, prims.reduce_and_p, prims.reduce_or_p


def sum_dtype(d: np.dtype) -> np.dtype:
    """The dtype a sum of `d` has: small integers and booleans grow to the default width."""
    if d == dtypes.BOOL:
        return dtypes.canonical_int()
    if dtypes.is_integer(d):
        least = dtypes.canonical_int()
        if dtypes.issubdtype(d, np.unsignedinteger):
            least = np.dtype(f"u{least.name}")
        return d if d.itemsize >= least.itemsize else least
    return d


def _reduce(call: str, prim: Any, a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any,
            unit: Any, op: Any, promote: bool = True) -> Any:
    """Sum-like reductions."""
    t = aval(call, a)
    d = t.dtype
    final = resolve_requested_dtype(dtype) if dtype is not None else sum_dtype(d) if promote else d
    if final == dtypes.BOOL:  # among truth values a sum is "or" and a product "and"
        prim, op = (_or, lax.bitwise_or) if prim is _sum else (_and, lax.bitwise_and)
    work = work_dtype(final)
    if d != work:
        a = cast(a, work)
    elif t.weak_type:
        a = cast(a, work)
    axes = axes_of(call, axis, len(t.shape))
    if where is not None:
        a = choose_by(where, a, literal(unit, work))
    out = equation(prim, a, axes=axes) if type(axes) is tuple else reduced(prim, a, axes)
    if initial is not None:
        out = op(*pair(call, out, cast(initial, work)))
    if work != final:
        out = convert(out, final)
    return kept(out, axes, keepdims)


@public_api("axis", "dtype", "out", "keepdims", "promote_integers")
def sum(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
        initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True) -> Array:
    """Sum along axes.

    Args:
      a: number or boolean array `[...]`.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      dtype: element type to sum in, and of the result; None for that of `a`, integers and booleans narrower than the
        default integer widened to it.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
      initial: a number to start from.
      where: booleans that broadcast to `a`: which elements to include; None for all.
      promote_integers: whether integers narrower than the default integer are widened.
    Returns:
      Array of the axes that are left, in the units of `a`; 0 (or `initial`) where there are no elements. Half
      precision is summed in float32 and rounded once.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: linear; the transpose repeats.
    Source: meaning of `numpy.sum`.

    >>> sum(np.array([1, 2, 3], dtype="int8"))
    Array(6, dtype=int32)
    >>> sum(np.ones((2, 3)), axis=1, keepdims=True)
    Array([[3.],
           [3.]], dtype=float32)
    """
    no_out("sum", out)
    return _reduce("sum", _sum, a, axis, dtype, keepdims, initial, where, 0, lax.add, promote_integers)


@public_api("axis", "dtype", "out", "keepdims", "promote_integers")
def prod(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
         initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True) -> Array:
    """Product along axes.

    Args:
      a: number or boolean array `[...]`.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      dtype: element type to multiply in, and of the result; None for that of `a`, integers and booleans narrower than
        the default integer widened to it.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
      initial: a number to start from.
      where: booleans that broadcast to `a`: which elements to include; None for all.
      promote_integers: whether integers narrower than the default integer are widened.
    Returns:
      Array of the axes that are left; 1 (or `initial`) where there are no elements. Half precision is multiplied in
      float32.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: exact where elements are zero, too.
    Source: meaning of `numpy.prod`.

    >>> prod(np.array([2., 3., 4.]))
    Array(24., dtype=float32)
    """
    no_out("prod", out)
    return _reduce("prod", _prod, a, axis, dtype, keepdims, initial, where, 1, lax.mul, promote_integers)


def _lowest(d: np.dtype, sign: int) -> Any:
    """The value that never wins: the lowest for max (sign -1), the highest for min (+1)."""
    if d == dtypes.BOOL:
        return literal(sign > 0, d)
    if dtypes.is_integer(d):
        info = dtypes.iinfo(d)
        return literal(int(info.min if sign < 0 else info.max), d)
    return literal(sign * np.inf, d)


def _extreme(call: str, prim: Any, op: Any, sign: int, a: Any, axis: Any, keepdims: bool, initial: Any,
             where: Any) -> Any:
    t = aval(call, a)
    axes = axes_of(call, axis, len(t.shape))
    if initial is None and builtins.any(t.shape[i] == 0 for i in axes):
        raise ValueError(f"{call}: {t.str_long()} has no elements along axes {axes}, and there is no {call} of nothing; "
                         "give initial")
    if where is not None:
        if initial is None:
            raise ValueError(f"{call}: with where, give initial too: it is the result where nothing is included")
        a = choose_by(where, a, _lowest(t.dtype, sign))
    a = cast(a, t.dtype) if t.weak_type else a
    out = equation(prim, a, axes=axes) if type(axes) is tuple else reduced(prim, a, axes)
    if initial is not None:
        out = op(*pair(call, out, cast(initial, t.dtype)))
    return kept(out, axes, keepdims)


@public_api("axis", "out", "keepdims")
def max(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
        where: ArrayLike | None = None) -> Array:
    """Largest element along axes; NaN when there is one.

    Args:
      a: ordered array `[...]`: integers, floats or booleans; complex numbers go by real part, then imaginary part.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
      initial: a number that takes part; needed where there are no elements, and with `where`.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Array of the axes that are left, dtype and units of `a`.
    Raises:
      ValueError: there are no elements along the axes and no `initial`, or `where` is given without `initial`.
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: equal largest elements share equally.
    Source: meaning of `numpy.max`.

    >>> max(np.array([[1, 5], [7, 2]]), axis=0)
    Array([7, 5], dtype=int32)
    """
    no_out("max", out)
    return _extreme("max", _max, lax.max, -1, a, axis, keepdims, initial, where)


@public_api("axis", "out", "keepdims")
def min(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
        where: ArrayLike | None = None) -> Array:
    """Smallest element along axes; NaN when there is one.

    Args:
      a: ordered array `[...]`: integers, floats or booleans; complex numbers go by real part, then imaginary part.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
      initial: a number that takes part; needed where there are no elements, and with `where`.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Array of the axes that are left, dtype and units of `a`.
    Raises:
      ValueError: there are no elements along the axes and no `initial`, or `where` is given without `initial`.
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: equal smallest elements share equally.
    Source: meaning of `numpy.min`.

    >>> min(np.array([[1, 5], [7, 2]]), axis=0)
    Array([1, 2], dtype=int32)
    """
    no_out("min", out)
    return _extreme("min", _min, lax.min, 1, a, axis, keepdims, initial, where)


amax, amin = max, min


def _quantifier(call: str, prim: Any, unit: bool, a: Any, axis: Any, keepdims: bool, where: Any) -> Any:
    a = truth(call, a)
    axes = axes_of(call, axis, len(typeof(a).shape))
    if where is not None:
        a = choose_by(where, a, np.bool_(unit))
    return kept(reduced(prim, a, axes), axes, keepdims)


@public_api("axis", "out", "keepdims")
def all(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False, *,
        where: ArrayLike | None = None) -> Array:
    """Whether every element along axes is true (not zero).

    Args:
      a: array `[...]` of any dtype; NaN is true.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Boolean array of the axes that are left; True where there are no elements.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Source: meaning of `numpy.all`.

    >>> all(np.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    no_out("all", out)
    return _quantifier("all", _and, True, a, axis, keepdims, where)


@public_api("axis", "out", "keepdims")
def any(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False, *,
        where: ArrayLike | None = None) -> Array:
    """Whether some element along axes is true (not zero).

    Args:
      a: array `[...]` of any dtype; NaN is true.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Boolean array of the axes that are left; False where there are no elements.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Source: meaning of `numpy.any`.

    >>> any(np.array([[0., 0.], [0., 2.]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    no_out("any", out)
    return _quantifier("any", _or, False, a, axis, keepdims, where)


@public_api("axis", "keepdims")
def count_nonzero(a: ArrayLike, axis: AxisLike = None, keepdims: bool = False) -> Array:
    """Number of elements along axes that are not zero.

    Args:
      a: array `[...]` of any dtype; NaN counts.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      keepdims: leave the reduced axes in place with length 1.
    Returns:
      Integer array of the axes that are left, of the default integer dtype.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.

    Source: meaning of `numpy.count_nonzero`.

    >>> count_nonzero(np.array([[0, 3], [5, 7]]), axis=1)
    Array([1, 2], dtype=int32)
    """
    a = truth("count_nonzero", a)
    return _reduce("count_nonzero", _sum, a, axis, dtypes.canonical_int(), keepdims, None, None, 0, lax.add)


def fitted(call: str, where: Any, shape: tuple[int, ...]) -> Any:
    """`where` as booleans of this shape."""
    where = truth("where", where)
    own = typeof(where).shape
    if len(own) > len(shape) or builtins.any(n not in (1, d) for n, d in zip(reversed(own), reversed(shape))):
        raise ShapeError(f"{call}: where has shape {own}; expected one that broadcasts to that of the array, {shape}")
    return broadcast(where, own, shape)


@public_api("axis", "out", "keepdims")
def ptp(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False) -> Array:
    """Largest minus smallest element along axes.

    Args:
      a: number array `[...]`.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
    Returns:
      Array of the axes that are left, dtype and units of `a`; NaN where there is one.
    Raises:
      ValueError: there are no elements along the axes.
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Source: meaning of `numpy.ptp`.

    >>> ptp(np.array([3., 1., 7.]))
    Array(6., dtype=float32)
    """
    no_out("ptp", out)
    highest = _extreme("ptp", _max, lax.max, -1, a, axis, keepdims, None, None)
    return lax.sub(highest, _extreme("ptp", _min, lax.min, 1, a, axis, keepdims, None, None))


# --- positions ------------------------------------------------------------------------------------------------------


def _position(call: str, place: Any, a: Any, axis: Any, keepdims: bool) -> Any:
    shape = aval(call, a).shape
    if type(axis) is not int and is_axis_name(axis):
        return place(a, axis, dtypes.canonical_int())
    if axis is None:
        ndim = len(shape)
        a, at = ravel(a), 0
        shape = typeof(a).shape
    else:
        ndim, at = 0, check_axis(call, axis, len(shape))
    if shape[at] == 0:
        raise ValueError(f"{call}: the axis has no elements, so none has a position; got {typeof(a).str_long()}")
    out = place(a, at, dtypes.canonical_int())
    if not keepdims:
        return out
    return with_axes(out, tuple(range(ndim)) if axis is None else (at,))


@public_api("axis", "out", "keepdims")
def argmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Position of the largest element along an axis.

    Args:
      a: ordered array `[..., n, ...]`.
      axis: the axis of length `n`, or the name of a mapped one; None flattens `a` first.
      out: not supported, must be None: arrays never change.
      keepdims: leave the axis (all axes, for `axis=None`) in place with length 1.
    Returns:
      Integer array of the other axes, of the default integer dtype, in `[0, n)`: the first of equal elements, and the
      first NaN where there is one.
    Raises:
      ValueError: the axis has no elements.
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: zero.
    Source: meaning of `numpy.argmax`.

    >>> argmax(np.array([[1, 7, 7], [5, 2, 0]]), axis=1)
    Array([1, 0], dtype=int32)
    """
    no_out("argmax", out)
    return _position("argmax", lax.argmax, a, axis, bool(keepdims))


@public_api("axis", "out", "keepdims")
def argmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Position of the smallest element along an axis.

    Args:
      a: ordered array `[..., n, ...]`.
      axis: the axis of length `n`, or the name of a mapped one; None flattens `a` first.
      out: not supported, must be None: arrays never change.
      keepdims: leave the axis (all axes, for `axis=None`) in place with length 1.
    Returns:
      Integer array of the other axes, of the default integer dtype, in `[0, n)`: the first of equal elements, and the
      first NaN where there is one.
    Raises:
      ValueError: the axis has no elements.
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: zero.
    Source: meaning of `numpy.argmin`.

    >>> argmin(np.array([[1, 7, 7], [5, 2, 0]]), axis=1)
    Array([0, 2], dtype=int32)
    """
    no_out("argmin", out)
    return _position("argmin", lax.argmin, a, axis, bool(keepdims))


def _nan_position(call: str, fun: Callable[..., Any], sign: int, a: Any, axis: Any, keepdims: Any) -> Any:
    d = aval(call, a).dtype
    if not dtypes.is_inexact(d):
        return fun(a, axis, None, keepdims)
    missing = isnan(a)
    found = fun(choose_by(missing, literal(sign * np.inf, d), a), axis, None, keepdims)
    nothing = all(missing, axis, None, bool(keepdims))
    return choose_by(nothing, literal(-1, typeof(found).dtype), found)


@public_api("axis", "out", "keepdims")
def nanargmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Position of the largest element along an axis, ignoring NaN.

    Args:
      a: ordered array `[..., n, ...]`.
      axis: the axis of length `n`, or the name of a mapped one; None flattens `a` first.
      out: not supported, must be None: arrays never change.
      keepdims: leave the axis (all axes, for `axis=None`) in place with length 1.
    Returns:
      Integer array of the other axes, in `[0, n)`; -1 where all elements are NaN.
    Raises:
      ValueError: the axis has no elements.
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Source: meaning of `numpy.nanargmax`, which raises where all elements are NaN.

    >>> nanargmax(np.array([np.nan, 1., 3.]))
    Array(2, dtype=int32)
    """
    no_out("nanargmax", out)
    return _nan_position("nanargmax", argmax, -1, a, axis, keepdims)


@public_api("axis", "out", "keepdims")
def nanargmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Position of the smallest element along an axis, ignoring NaN.

    Args:
      a: ordered array `[..., n, ...]`.
      axis: the axis of length `n`, or the name of a mapped one; None flattens `a` first.
      out: not supported, must be None: arrays never change.
      keepdims: leave the axis (all axes, for `axis=None`) in place with length 1.
    Returns:
      Integer array of the other axes, in `[0, n)`; -1 where all elements are NaN.
    Raises:
      ValueError: the axis has no elements.
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Source: meaning of `numpy.nanargmin`, which raises where all elements are NaN.

    >>> nanargmin(np.array([np.nan, 1., 3.]))
    Array(1, dtype=int32)
    """
    no_out("nanargmin", out)
    return _nan_position("nanargmin", argmin, 1, a, axis, keepdims)
