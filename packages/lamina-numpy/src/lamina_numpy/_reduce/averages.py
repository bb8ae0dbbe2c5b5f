"""Means, variances and weighted averages along axes; half precision is summed in float32."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from lamina_ir import config, dtypes, prims
from lamina_tracing import Array, ArrayLike, AxisLike, DTypeLike, lax
from lamina_tracing.extend import typeof

from .._ground.promotion import aval, cast, convert, equation, fixed, inexact_dtype, literal, no_out, pair, to_inexact
from .._ground.publishing import public
from .._ground.choosing import choose_by
from .._elementwise.ufuncs import multiply, true_divide
from .reductions import axes_of, fitted, kept, work_dtype
from .reductions import sum as total_of

__all__ = ["average", "mean", "std", "var"]


def _float_of(call: str, a: Any, dtype: Any) -> tuple[Any, np.dtype, np.dtype]:
    """(`a` in the dtype to compute in, that dtype, dtype of the result)."""
    d = aval(call, a).dtype
    final = inexact_dtype(d, config.enable_x64.value) if dtype is None else dtypes.canonical(dtype)
    work = work_dtype(final)
    return cast(a, work), work, final


@public("axis", "dtype", "out", "keepdims")
def mean(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
         *, where: ArrayLike | None = None) -> Array:
    """Average along axes, in float.

    >>> mean(np.array([1, 2]))
    Array(1.5, dtype=float32)
    """
    no_out("mean", out)
    a, work, final = _float_of("mean", a, dtype)
    shape = typeof(a).shape
    axes = axes_of("mean", axis, len(shape))
    if where is None:
        total = equation(prims.reduce_sum_p, a, axes=axes)
        count: Any = literal(math.prod(shape[i] for i in axes), work)
    else:
        total = lax.reduce_sum(choose_by(where, a, literal(0, work)), axes)
        count = cast(lax.reduce_sum(cast(fitted(where, shape), work), axes), work)
    out_ = equation(prims.div_p, total, count)
    return kept(out_ if work == final else convert(out_, final), axes, keepdims)


def _variance(call: str, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool, where: Any, mean_of: Any) -> Any:
    a, work, final = _float_of(call, a, dtype)
    shape = typeof(a).shape
    axes = axes_of(call, axis, len(shape))
    if mean_of is None:  # over all axes the mean has rank 0 and stands beside `a` as it is
        mean_of = mean(a, axes, None, None, len(axes) < len(shape), where=where)
    gap = equation(prims.sub_p, *pair(call, a, mean_of))
    if where is not None:  # before it is squared: the slope of what is left out may be NaN
        gap = choose_by(where, gap, literal(0, work))
    part = dtypes.real_of(work)
    if dtypes.is_complex(work):
        square = lax.add(lax.integer_pow(lax.real(gap), 2), lax.integer_pow(lax.imag(gap), 2))
    else:
        square = equation(prims.integer_pow_p, gap, y=2)
    if where is None:
        count: Any = math.prod(shape[i] for i in axes)
    else:
        count = lax.reduce_sum(cast(fitted(where, shape), part), axes)
    total = equation(prims.reduce_sum_p, square, axes=axes)
    if isinstance(count, int) and isinstance(ddof, (int, float)):
        left = count - ddof
        out = equation(prims.div_p, total, literal(left if left > 0 else np.nan, part))
    else:
        left = lax.sub(*pair(call, cast(count, part), cast(ddof, part)))
        good = lax.gt(left, literal(0, part))
        out = choose_by(good, lax.div(*pair(call, total, choose_by(good, left, literal(1, part)))),
                        literal(np.nan, part))
    real_final = dtypes.real_of(final)
    return kept(out if part == real_final else convert(out, real_final), axes, keepdims)


def _ddof(call: str, ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if type(ddof) in (int, float) and ddof:
        raise ValueError(f"{call}: ddof and correction mean the same; give one")
    return correction


@public("axis", "dtype", "out", "ddof", "keepdims", "correction")
def var(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, *, where: ArrayLike | None = None, mean: ArrayLike | None = None,
        correction: float | None = None) -> Array:
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
def std(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, *, where: ArrayLike | None = None, mean: ArrayLike | None = None,
        correction: float | None = None) -> Array:
    """Standard deviation: the square root of `var`, in units of `a`."""
    no_out("std", out)
    spread = _variance("std", a, axis, dtype, _ddof("std", ddof, correction), keepdims, where, mean)
    return lax.sqrt(spread)


@public("axis", "returned", "keepdims")
def average(a: ArrayLike, axis: AxisLike = None, weights: ArrayLike | None = None, returned: bool = False,
            keepdims: bool = False) -> Any:
    """Mean weighted by `weights` (all equal when left out); with `returned` also the sum of the weights."""
    shape = aval("average", a).shape
    axes = axes_of("average", axis, len(shape))
    if weights is None:
        out = mean(a, axes, None, None, keepdims)
        count = fixed(math.prod(shape[i] for i in axes), typeof(out).dtype)
        total: Any = lax.broadcast_in_dim(count, typeof(out).shape, ())
        return (out, total) if returned else out
    w_shape = aval("average", weights, 1).shape
    if w_shape != shape:
        if len(w_shape) != len(axes) or tuple(shape[i] for i in axes) != w_shape:
            raise ValueError(f"average: weights must have the shape of a {shape} or of its axes {axes}; got {w_shape}")
        order = sorted(range(len(axes)), key=lambda k: axes[k])
        weights = lax.transpose(weights, tuple(order)) if order != list(range(len(axes))) \
            else weights
        weights = lax.broadcast_in_dim(weights, shape, tuple(sorted(axes)))
    a, weights = pair("average", to_inexact("average", a), to_inexact("average", weights))
    total = total_of(weights, axes, None, None, keepdims)
    out = true_divide(total_of(multiply(a, weights), axes, None, None, keepdims), total)
    return (out, total) if returned else out
