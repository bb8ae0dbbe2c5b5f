"""Sums, products, extremes, means and running totals along axes.

Integers narrower than the default integer are summed in it; float16 and bfloat16 are summed in float32 and rounded
once at the end.
"""
from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import config, dtypes, prims
from lamina_tracing.extend import bind, check_axes, check_axis, typeof

from ._logic import isnan, truth
from ._promotion import aval, broadcast, cast, convert, fixed, inexact_dtype, literal, pair, to_inexact
from ._publish import public
from ._selection import choose_by
from ._shape import ravel, with_axes
from ._ufuncs import no_out

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "max", "mean", "min",
           "nanargmax", "nanargmin", "prod", "ptp", "std", "sum", "var"]

_sum, _prod = prims.reduce_sum_p, prims.reduce_prod_p
_max, _min, _and, _or = prims.reduce_max_p, prims.reduce_min_p, prims.reduce_and_p, prims.reduce_or_p
_F32 = np.dtype("float32")
_HALF = frozenset((np.dtype("float16"), dtypes.bfloat16))


def axes_of(call: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes to reduce, counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and 0 <= axis < ndim:
        return (axis,)
    return check_axes(call, axis, ndim)


def _kept(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return with_axes(x, axes) if keepdims else x


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
    final = dtypes.canonical(dtype) if dtype is not None else sum_dtype(d) if promote else d
    work = _F32 if final in _HALF else final
    if d != work:
        a = cast(a, work)
    elif t.weak_type:
        a = cast(a, work)
    axes = axes_of(call, axis, len(t.shape))
    if where is not None:
        a = choose_by(where, a, literal(unit, work))
    out = bind(prim, a, axes=axes)
    if initial is not None:
        out = bind(op, *pair(call, out, cast(initial, work)))
    if work != final:
        out = convert(out, final)
    return _kept(out, axes, keepdims)


@public("axis", "dtype", "out", "keepdims", "promote_integers")
def sum(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None, promote_integers: bool = True) -> Any:
    """Sum along axes.

    Args:
      a: numbers; booleans count as integers.
      axis: an int, a tuple of ints, or None for all.
      dtype: element type to sum in.
      keepdims: leave the summed axes in place with length 1.
      initial: a number to start from.
      where: which elements to include.
      promote_integers: widen small integers to the default width.

    >>> sum(np.array([1, 2, 3], dtype="int8"))
    Array(6, dtype=int32)
    """
    no_out("sum", out)
    return _reduce("sum", _sum, a, axis, dtype, keepdims, initial, where, 0, prims.add_p, promote_integers)


@public("axis", "dtype", "out", "keepdims", "promote_integers")
def prod(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
         where: Any = None, promote_integers: bool = True) -> Any:
    """Product along axes; arguments as in `sum`."""
    no_out("prod", out)
    return _reduce("prod", _prod, a, axis, dtype, keepdims, initial, where, 1, prims.mul_p, promote_integers)


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
        raise ValueError(f"{call}: {t.long()} has no elements along axes {axes}, and there is no {call} of nothing; "
                         "give initial")
    if where is not None:
        if initial is None:
            raise ValueError(f"{call}: with where, give initial too: it is the result where nothing is included")
        a = choose_by(where, a, _lowest(t.dtype, sign))
    out = bind(prim, cast(a, t.dtype) if t.weak_type else a, axes=axes)
    if initial is not None:
        out = bind(op, *pair(call, out, cast(initial, t.dtype)))
    return _kept(out, axes, keepdims)


@public("axis", "out", "keepdims")
def max(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None) -> Any:
    """Largest element along axes; NaN when there is one."""
    no_out("max", out)
    return _extreme("max", _max, prims.max_p, -1, a, axis, keepdims, initial, where)


@public("axis", "out", "keepdims")
def min(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None) -> Any:
    """Smallest element along axes; NaN when there is one."""
    no_out("min", out)
    return _extreme("min", _min, prims.min_p, 1, a, axis, keepdims, initial, where)


amax, amin = max, min


def _quantifier(call: str, prim: Any, unit: bool, a: Any, axis: Any, keepdims: bool, where: Any) -> Any:
    a = truth(call, a)
    axes = axes_of(call, axis, len(typeof(a).shape))
    if where is not None:
        a = choose_by(where, a, np.bool_(unit))
    return _kept(bind(prim, a, axes=axes), axes, keepdims)


@public("axis", "out", "keepdims")
def all(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """Whether every element is true (not zero)."""
    no_out("all", out)
    return _quantifier("all", _and, True, a, axis, keepdims, where)


@public("axis", "out", "keepdims")
def any(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """Whether some element is true (not zero)."""
    no_out("any", out)
    return _quantifier("any", _or, False, a, axis, keepdims, where)


@public("axis", "keepdims")
def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Number of elements that are not zero."""
    return sum(truth("count_nonzero", a), axis, dtypes.canonical_int(), None, keepdims)


def _float_of(call: str, a: Any, dtype: Any) -> tuple[Any, np.dtype, np.dtype]:
    """(`a` in the dtype to compute in, that dtype, dtype of the result)."""
    d = aval(call, a).dtype
    final = inexact_dtype(d, config.enable_x64.value) if dtype is None else dtypes.canonical(dtype)
    work = _F32 if final in _HALF else final
    return cast(a, work), work, final


@public("axis", "dtype", "out", "keepdims")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, *,
         where: Any = None) -> Any:
    """Average along axes, in float.

    >>> mean(np.array([1, 2]))
    Array(1.5, dtype=float32)
    """
    no_out("mean", out)
    a, work, final = _float_of("mean", a, dtype)
    shape = typeof(a).shape
    axes = axes_of("mean", axis, len(shape))
    if where is None:
        total = bind(_sum, a, axes=axes)
        count: Any = literal(math.prod(shape[i] for i in axes), work)
    else:
        total = bind(_sum, choose_by(where, a, literal(0, work)), axes=axes)
        count = cast(bind(_sum, cast(_fit(where, shape), work), axes=axes), work)
    out_ = bind(prims.div_p, total, count)
    return _kept(out_ if work == final else convert(out_, final), axes, keepdims)


def _fit(where: Any, shape: tuple[int, ...]) -> Any:
    where = truth("where", where)
    return broadcast(where, typeof(where).shape, shape)


def _variance(call: str, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool, where: Any, mean_of: Any) -> Any:
    a, work, final = _float_of(call, a, dtype)
    shape = typeof(a).shape
    axes = axes_of(call, axis, len(shape))
    if mean_of is None:  # over all axes the mean has rank 0 and stands beside `a` as it is
        mean_of = mean(a, axes, None, None, len(axes) < len(shape), where=where)
    gap = bind(prims.sub_p, *pair(call, a, mean_of))
    if where is not None:  # before it is squared: the slope of what is left out may be NaN
        gap = choose_by(where, gap, literal(0, work))
    part = dtypes.real_of(work)
    if dtypes.is_complex(work):
        square = bind(prims.add_p, bind(prims.integer_pow_p, bind(prims.real_p, gap), y=2),
                      bind(prims.integer_pow_p, bind(prims.imag_p, gap), y=2))
    else:
        square = bind(prims.integer_pow_p, gap, y=2)
    if where is None:
        count: Any = math.prod(shape[i] for i in axes)
    else:
        count = bind(_sum, cast(_fit(where, shape), part), axes=axes)
    total = bind(_sum, square, axes=axes)
    if isinstance(count, int) and isinstance(ddof, (int, float)):
        left = count - ddof
        out = bind(prims.div_p, total, literal(left if left > 0 else np.nan, part))
    else:
        left = bind(prims.sub_p, *pair(call, cast(count, part), cast(ddof, part)))
        good = bind(prims.gt_p, left, literal(0, part))
        out = choose_by(good, bind(prims.div_p, *pair(call, total, choose_by(good, left, literal(1, part)))),
                        literal(np.nan, part))
    real_final = dtypes.real_of(final)
    return _kept(out if part == real_final else convert(out, real_final), axes, keepdims)


def _ddof(call: str, ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if type(ddof) in (int, float) and ddof:
        raise ValueError(f"{call}: ddof and correction mean the same; give one")
    return correction


@public("axis", "dtype", "out", "ddof", "keepdims", "correction")
def var(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims: bool = False, *,
        where: Any = None, mean: Any = None, correction: Any = None) -> Any:
    """Mean squared distance from the mean, in squared units of `a`.

    Args:
      a: numbers.
      axis, dtype, keepdims, where: as in `mean`.
      ddof: what is taken off the number of elements before dividing (`correction` means the same).
      mean: the mean, where it is known, with its axes kept.
    """
    no_out("var", out)
    return _variance("var", a, axis, dtype, _ddof("var", ddof, correction), keepdims, where, mean)


@public("axis", "dtype", "out", "ddof", "keepdims", "correction")
def std(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims: bool = False, *,
        where: Any = None, mean: Any = None, correction: Any = None) -> Any:
    """Standard deviation: the square root of `var`, in units of `a`."""
    no_out("std", out)
    spread = _variance("std", a, axis, dtype, _ddof("std", ddof, correction), keepdims, where, mean)
    return bind(prims.sqrt_p, spread)


@public("axis", "out", "keepdims")
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """Largest minus smallest element."""
    no_out("ptp", out)
    return bind(prims.sub_p, max(a, axis, None, keepdims), min(a, axis, None, keepdims))


@public("axis", "returned", "keepdims")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    """Mean weighted by `weights` (all equal when left out); with `returned` also the sum of the weights."""
    from ._ufuncs import multiply, true_divide
    shape = aval("average", a).shape
    axes = axes_of("average", axis, len(shape))
    if weights is None:
        out = mean(a, axes, None, None, keepdims)
        count = fixed(math.prod(shape[i] for i in axes), typeof(out).dtype)
        total: Any = bind(prims.broadcast_in_dim_p, count, shape=typeof(out).shape, broadcast_dimensions=())
        return (out, total) if returned else out
    w_shape = aval("average", weights, 1).shape
    if w_shape != shape:
        if len(w_shape) != len(axes) or tuple(shape[i] for i in axes) != w_shape:
            raise ValueError(f"average: weights must have the shape of a {shape} or of its axes {axes}; got {w_shape}")
        order = sorted(range(len(axes)), key=lambda k: axes[k])
        weights = bind(prims.transpose_p, weights, permutation=tuple(order)) if order != list(range(len(axes))) \
            else weights
        weights = bind(prims.broadcast_in_dim_p, weights, shape=shape, broadcast_dimensions=tuple(sorted(axes)))
    a, weights = pair("average", to_inexact("average", a), to_inexact("average", weights))
    total = sum(weights, axes, None, None, keepdims)
    out = true_divide(sum(multiply(a, weights), axes, None, None, keepdims), total)
    return (out, total) if returned else out


# --- positions ------------------------------------------------------------------------------------------------------


def _position(call: str, prim: Any, a: Any, axis: int | None, keepdims: bool) -> Any:
    shape = aval(call, a).shape
    if axis is None:
        ndim = len(shape)
        a, at = ravel(a), 0
        shape = typeof(a).shape
    else:
        ndim, at = 0, check_axis(call, axis, len(shape))
    if shape[at] == 0:
        raise ValueError(f"{call}: the axis has no elements, so none has a position; got {typeof(a).long()}")
    out = bind(prim, a, axes=(at,), index_dtype=dtypes.canonical_int())
    if not keepdims:
        return out
    return with_axes(out, tuple(range(ndim)) if axis is None else (at,))


@public("axis", "out", "keepdims")
def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """Position of the (first) largest element, or of the first NaN."""
    no_out("argmax", out)
    return _position("argmax", prims.argmax_p, a, axis, bool(keepdims))


@public("axis", "out", "keepdims")
def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """Position of the (first) smallest element, or of the first NaN."""
    no_out("argmin", out)
    return _position("argmin", prims.argmin_p, a, axis, bool(keepdims))


def _nan_position(call: str, fun: Callable[..., Any], sign: int, a: Any, axis: Any, keepdims: Any) -> Any:
    d = aval(call, a).dtype
    if not dtypes.is_inexact(d):
        return fun(a, axis, None, keepdims)
    missing = isnan(a)
    found = fun(choose_by(missing, literal(sign * np.inf, d), a), axis, None, keepdims)
    nothing = all(missing, axis, None, bool(keepdims))
    return choose_by(nothing, literal(-1, typeof(found).dtype), found)


@public("axis", "out", "keepdims")
def nanargmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """`argmax` ignoring NaN; -1 where all are NaN."""
    no_out("nanargmax", out)
    return _nan_position("nanargmax", argmax, -1, a, axis, keepdims)


@public("axis", "out", "keepdims")
def nanargmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """`argmin` ignoring NaN; -1 where all are NaN."""
    no_out("nanargmin", out)
    return _nan_position("nanargmin", argmin, 1, a, axis, keepdims)
