"""Logarithms of sums of exponentials, without overflow on the way."""
from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from lamina_autodiff import custom_jvp, jvp
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, AxisLike, lax
from lamina_tracing.extend import typeof

from .._core.select import choose_by
from .._core.named_axes import axes_of, keep_axes
from .._core.promotion import broadcast, cast, inexact_pair, literal, pair, to_inexact, work_dtype
from .._core.public_api import public_api
from .reductions import fitted
from .reductions import max as max_of
from .reductions import sum as sum_of

__all__ = ["logsumexp"]


def _take_real(x: Any) -> Any:
    return lax.real(x) if dtypes.is_complex(typeof(x).dtype) else x


def _find_max(x: Any, axes: tuple[int, ...], finite: bool) -> Any:
    """The largest real part along axes, zero where that is NaN or minus infinity, or not `finite`; it has no derivative."""
    real = lax.stop_gradient(_take_real(x))
    empty = any(typeof(x).shape[i] == 0 for i in axes)
    top = max_of(real, axes, None, False, -np.inf if empty else None)
    good = lax.is_finite(top) if finite else lax.gt(top, literal(-np.inf, typeof(top).dtype))
    return choose_by(good, top, literal(0, typeof(top).dtype))


@custom_jvp
def _subtract_max(x: Any, top: Any) -> Any:
    """Return elements minus the largest one. If the largest is infinite, elements equal to it give 0 with derivative 1."""
    infinite = literal(np.inf, typeof(top).dtype)
    tied = lax.bitwise_and(*pair("logsumexp", lax.eq(x, infinite), lax.eq(top, infinite)))
    gap = lax.sub(*pair("logsumexp", x, top))
    return choose_by(tied, lax.div(literal(1, typeof(x).dtype), x), gap)  # 1 / x and not 0: it is NaN wherever x is


@_subtract_max.defjvp
def _subtract_max_jvp(primals: Any, tangents: Any) -> Any:
    return _subtract_max(*primals), tangents[0]


def _mark_undefined(terms: Any, top: Any, axes: tuple[int, ...]) -> Any:
    """1; NaN where infinite terms of several signs meet."""
    signs = lax.sign(lax.stop_gradient(terms))
    several = lax.ne(lax.abs(sum_of(signs, axes)), sum_of(lax.abs(signs), axes))
    lost = lax.bitwise_and(*pair("logsumexp", several, lax.eq(top, literal(np.inf, typeof(top).dtype))))
    return choose_by(lost, literal(np.nan, typeof(top).dtype), literal(1, typeof(top).dtype))


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _logsumexp_core(x: Any, axes: tuple[int, ...]) -> Any:
    """Without weights, in the form that compilers know as one kernel."""
    top = _find_max(x, axes, True)
    over = keep_axes(top, axes, len(axes) < len(typeof(x).shape))
    return lax.add(lax.log(sum_of(lax.exp(lax.sub(*pair("logsumexp", x, over))), axes)), top)


@_logsumexp_core.defjvp
def _logsumexp_jvp(axes: tuple[int, ...], primals: Any, tangents: Any) -> Any:
    def weighted_sum(x: Any) -> Any:
        top = _find_max(x, axes, False)
        gap = _subtract_max(x, keep_axes(top, axes, len(axes) < len(typeof(x).shape)))
        return lax.add(lax.log(sum_of(lax.exp(gap), axes)), top)
    return jvp(weighted_sum, primals, tangents)


@public_api("axis", "keepdims", "return_sign")
def logsumexp(a: ArrayLike, axis: AxisLike = None, b: ArrayLike | None = None, keepdims: bool = False,
              return_sign: bool = False, where: ArrayLike | None = None) -> Array | tuple[Array, Array]:
    """`log(sum(b * exp(a)))` along axes, without overflow on the way.

    Args:
      a: number or boolean array `[...]`.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      b: weights that broadcast to `a`, of any sign; None for ones. An element of weight zero does not count, infinite or
        not.
      keepdims: leave the reduced axes in place with length 1.
      return_sign: return the logarithm of the sum's absolute value, and the sum's sign.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Array of the axes that are left, in the float dtype that `a` and `b` meet in; minus infinity where the sum is zero or
      of nothing, NaN where it is negative. With `return_sign` a pair: the logarithm of the sum's size, real, and the sum's
      sign: -1, 0 or 1, or a complex number of size 1.
    Raises:
      TypeError: `a` or `b` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice; `a` and `b` do not broadcast to each other.
      UnboundAxisError: `axis` names a mapped axis that is not bound.

    Derivative: `b * exp(a - logsumexp(a))`, of all orders; where real elements are plus infinity they alone have one,
      and share it as finite ones of one size would. NaN where all that count are minus infinity.
    Source: meaning of `scipy.special.logsumexp`; the largest element is taken off before `exp` and added to the logarithm.

    >>> logsumexp(np.array([1000., -np.inf, 0.]))
    Array(1000., dtype=float32)
    >>> size, sign = logsumexp(np.array([0., 0.]), b=np.array([1., -2.]), return_sign=True)
    >>> size, sign
    (Array(0., dtype=float32), Array(-1., dtype=float32))
    """
    x, w = (to_inexact("logsumexp", a), None) if b is None else inexact_pair("logsumexp", a, b)
    final = typeof(x).dtype
    work = work_dtype(final)
    x = cast(x, work)
    if w is not None and not typeof(x).shape:
        x = broadcast(x, (), typeof(w).shape)
    shape = typeof(x).shape
    axes = axes_of("logsumexp", axis, len(shape))
    if where is not None:
        x = choose_by(fitted("logsumexp", where, shape), x, literal(-np.inf, work))
    complex_too = dtypes.is_complex(work)
    if w is None and not return_sign and not complex_too:
        return keep_axes(cast(_logsumexp_core(x, axes), final), axes, keepdims)
    counted = None if w is None else lax.ne(w, literal(0, final))
    top = _find_max(x if w is None else choose_by(counted, x, literal(-np.inf, work)), axes, complex_too)
    over = keep_axes(top, axes, len(axes) < len(shape))
    gap = lax.sub(*pair("logsumexp", x, cast(over, work))) if complex_too else _subtract_max(x, over)
    if w is not None:
        # An element of weight zero adds nothing, but while its exponential is a number that is the derivative in its weight.
        most = literal(math.log(float(dtypes.finfo(work).max)) - 1, dtypes.real_dtype(work))
        counted = lax.bitwise_or(*pair("logsumexp", counted, lax.le(_take_real(gap), most)))
        w = cast(w, work)
        if not complex_too:  # next to infinite elements the others add nothing, even with infinite weights
            infinite = literal(np.inf, work)
            none = lax.bitwise_and(*pair("logsumexp", lax.eq(gap, literal(-np.inf, work)), lax.eq(over, infinite)))
            w = choose_by(lax.bitwise_and(*pair("logsumexp", none, lax.eq(lax.abs(w), infinite))), literal(0, work), w)
        terms = lax.mul(*pair("logsumexp", lax.exp(choose_by(counted, gap, literal(-np.inf, work))), w))
        if not complex_too:
            terms = lax.mul(*pair("logsumexp", terms,
                                  keep_axes(_mark_undefined(terms, top, axes), axes, len(axes) < len(shape))))
    else:
        terms = lax.exp(gap)
    total = sum_of(terms, axes)
    size = lax.abs(total) if return_sign else total
    out = lax.add(lax.log(size), cast(top, typeof(size).dtype))
    if not return_sign:
        return keep_axes(cast(out, final), axes, keepdims)
    return keep_axes(cast(out, dtypes.real_dtype(final)), axes, keepdims), keep_axes(cast(lax.sign(total), final), axes,
                                                                                     keepdims)
