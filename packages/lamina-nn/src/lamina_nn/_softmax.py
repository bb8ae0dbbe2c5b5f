"""Along axes: softmax and its logarithm, means of exponentials, standardised values; and numbers of classes as unit vectors."""
from __future__ import annotations

import functools
import math
import operator
from collections.abc import Hashable
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import custom_jvp
from lamina_ir import dtypes
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import axes_of, fitted, ignore_strict_promotion, public_api, to_inexact, work_dtype
from lamina_numpy.special import logsumexp
from lamina_tracing import Array, ArrayLike, AxisLike, DTypeLike, lax
from lamina_tracing.extend import check_axis, is_axis_name, resolve_requested_dtype, typeof

__all__ = ["log_softmax", "logmeanexp", "one_hot", "softmax", "standardize"]

_SOFTMAX = docstring_entries("""
    x: number array `[...]`; integers and booleans become float.
    axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
    TypeError: `x` is neither an array nor a number.
    ShapeError: `axis` names an axis that `x` does not have, or one twice; `where` does not broadcast to `x`.
    UnboundAxisError: `axis` names a mapped axis that is not bound.
    """)


def _compute_exponentials(call: str, x: Any, axis: Any, where: Any) -> tuple[Any, Any, Any, Any]:
    """Return the parts that functions here share: shifted `x`, exponentials, their sum, `where` in the shape of `x`.

    `x` is shifted by its largest element along axes, which has no derivative. The sum is in float32 at least, and one
    where `where` leaves nothing."""
    x = to_inexact(call, x)
    t = typeof(x)
    axes = axes_of(call, axis, len(t.shape))
    some: Any = None
    if where is not None:
        where = fitted(call, where, t.shape)
        some = lnp.any(where, axes, None, True)
        x = lnp.where(where, x, -np.inf)
    empty = any(t.shape[i] == 0 for i in axes)
    top = lnp.max(lax.stop_gradient(x), axes, None, True, -np.inf if empty else None)
    x = lnp.subtract(x, top if some is None else lnp.where(some, top, 0))
    terms = lax.exp(x)
    total = lnp.sum(terms, axes, work_dtype(t.dtype), None, True)
    return x, terms, total if some is None else lnp.where(some, total, 1), where


@public_api("axis", entries=_SOFTMAX)
def softmax(x: ArrayLike, axis: AxisLike = -1, where: ArrayLike | None = None, initial: ArrayLike | None = None) -> Array:
    """`exp(x) / sum(exp(x))` along axes: positive numbers that sum to 1.

    Args:
      {x, axis}
      where: booleans that broadcast to `x`: which elements take part; the others give 0. None for all.
      initial: of no effect; older versions of JAX required it with `where`.
    Returns:
      Float array of the shape of `x`; NaN where the largest element is infinite, of either sign.
    Raises: {TypeError, ShapeError, UnboundAxisError}

    Derivative: `y (t - sum(y t))` for a tangent t, y the result.
    Source: Bridle, "Probabilistic interpretation of feedforward classification network outputs" (1990).

    >>> softmax(np.array([1000., 1000., -np.inf]))
    Array([0.5, 0.5, 0. ], dtype=float32)
    >>> softmax(np.array([1., 2., 1.]), where=np.array([True, False, True]))
    Array([0.5, 0. , 0.5], dtype=float32)
    """
    return _softmax(to_inexact("softmax", x), where, axis)


@functools.partial(custom_jvp, nondiff_argnums=(2,))
def _softmax(x: Any, where: Any, axis: Any) -> Any:
    d = typeof(x).dtype
    if work_dtype(d) != d:  # differences and exponentials rounded to half precision would be off by a tenth
        x = lnp.astype(x, work_dtype(d))
    _, terms, total, where = _compute_exponentials("softmax", x, axis, where)
    out = lnp.astype(lnp.divide(terms, total), d)
    return out if where is None else lnp.where(where, out, 0)


@_softmax.defjvp
def _softmax_jvp(axis: Any, primals: Any, tangents: Any) -> Any:
    """Made of the result alone, so that nothing else is kept for a gradient."""
    y, t = _softmax(primals[0], primals[1], axis), tangents[0]
    if primals[1] is not None:
        t = lnp.where(primals[1], t, 0)
    return y, lax.mul(y, lnp.subtract(t, lnp.sum(lax.mul(y, t), axis, None, None, True)))


@public_api("axis", entries=_SOFTMAX)
def log_softmax(x: ArrayLike, axis: AxisLike = -1, where: ArrayLike | None = None, initial: ArrayLike | None = None) -> Array:
    """The logarithm of `softmax(x)`: `x - logsumexp(x)` along axes.

    Args:
      {x, axis}
      where: booleans that broadcast to `x`: which elements take part; the others give minus infinity. None for all.
      initial: of no effect; older versions of JAX required it with `where`.
    Returns:
      Float array of the shape of `x`, not above 0; NaN where the largest element is infinite, of either sign.
    Raises: {TypeError, ShapeError, UnboundAxisError}

    Derivative: `t - sum(softmax(x) t)` for a tangent t.
    Source: the logarithm of `softmax`, precise where that is near 0.

    >>> log_softmax(np.array([0., 1000.]))
    Array([-1000.,     0.], dtype=float32)
    """
    shifted, _, total, where = _compute_exponentials("log_softmax", x, axis, where)
    out = lnp.astype(lnp.subtract(shifted, lax.log(total)), typeof(shifted).dtype)
    return out if where is None else lnp.where(where, out, -np.inf)


@public_api("axis", "keepdims", entries=_SOFTMAX)
def logmeanexp(x: ArrayLike, axis: AxisLike = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """`log(mean(exp(x)))` along axes, without overflow on the way.

    Args:
      {x, axis}
      where: booleans that broadcast to `x`: which elements to include; None for all.
      keepdims: leave the reduced axes in place with length 1.
    Returns:
      Float array of the axes that are left; NaN where there are no elements.
    Raises: {TypeError, ShapeError, UnboundAxisError}

    Derivative: that of `logsumexp`.
    Source: `logsumexp(x)` less the logarithm of the number of elements.

    >>> logmeanexp(np.array([1000., 1000.]))
    Array(1000., dtype=float32)
    """
    x = to_inexact("logmeanexp", x)
    axes_of("logmeanexp", axis, len(typeof(x).shape))  # refuses in this name what is no axis
    if where is None:
        n = lnp.size(x, axis)
        count: Any = math.log(n) if n else -np.inf
    else:
        where = fitted("logmeanexp", where, typeof(x).shape)
        count = lnp.log(lnp.sum(where, axis, typeof(x).dtype, None, keepdims))
    total: Any = logsumexp(x, axis, None, keepdims, False, where)  # without the sign, which it would also return
    return lnp.subtract(total, count)


@public_api("axis", entries=_SOFTMAX)
@ignore_strict_promotion
def standardize(x: ArrayLike, axis: AxisLike = -1, mean: ArrayLike | None = None, variance: ArrayLike | None = None,
                epsilon: ArrayLike = 1e-5, where: ArrayLike | None = None) -> Array:
    """`(x - mean) / sqrt(variance + epsilon)`, both of `x` along axes unless given.

    Args:
      {x, axis}
      mean: what to take off, where it is known; broadcasts to `x`. None computes it.
      variance: what to divide by, where it is known; broadcasts to `x`. None computes it; if `mean` is given,
        it is `mean(x**2) - mean**2`.
      epsilon: what is added to the variance.
      where: booleans that broadcast to `x`: which elements the mean and the variance are of; None for all.
    Returns:
      Float array of the shape of `x`.
    Raises:
      TypeError: `x` is neither an array nor a number.
      ShapeError: `axis` names an axis that `x` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.

    Source: Ba, Kiros and Hinton, "Layer normalization" (2016), without its weights; the variance in two passes.

    >>> standardize(np.array([1., 3.]), epsilon=0.)
    Array([-1.,  1.], dtype=float32)
    """
    x = to_inexact("standardize", x)
    final = typeof(x).dtype
    x = lnp.astype(x, work_dtype(final)) if work_dtype(final) != final else x
    axes = axes_of("standardize", axis, len(typeof(x).shape))
    if where is not None:
        where = fitted("standardize", where, typeof(x).shape)
    if mean is None:
        mean = lnp.mean(x, axes, None, None, True, where=where)
        if variance is None:
            variance = lnp.var(x, axes, None, None, 0, True, where=where, mean=mean)
    elif variance is None:
        variance = lnp.subtract(lnp.mean(lnp.square(x), axes, None, None, True, where=where), lnp.square(mean))
    out = lnp.multiply(lnp.subtract(x, mean), lax.rsqrt(to_inexact("standardize", lnp.add(variance, epsilon))))
    return lnp.astype(out, final) if work_dtype(final) != final else out


@public_api("num_classes", "dtype", "axis")
def one_hot(x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: int | Hashable = -1) -> Array:
    """Numbers of classes as unit vectors: 1 at the place that `x` says, 0 elsewhere.

    Args:
      x: number array `[...]`; what is no number of a class gives zeros.
      num_classes: how many classes there are.
      dtype: element type of the result; None for float32 (float64 in 64-bit mode).
      axis: position of the new axis in the result; negative counts from the end. The name of a mapped axis puts it
        there: each position gets the place that is its own.
    Returns:
      Array `[..., num_classes]` with the last axis moved to `axis`; along a name an array of the shape of `x`.
    Raises:
      TypeError: `x` is neither an array nor a number, or `num_classes` no integer.
      ValueError: `num_classes` is negative, or not the size of the mapped axis.
      ShapeError: `axis` is outside `[-x.ndim - 1, x.ndim]`.
      UnboundAxisError: `axis` names a mapped axis that is not bound.

    Derivative: none.
    Source: rows of the unit matrix.

    >>> one_hot(np.array([0, 2, 7]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.],
           [0., 0., 0.]], dtype=float32)
    """
    n = _check_num_classes(num_classes)
    x = lnp.asarray(x)
    d = typeof(x).dtype
    if not dtypes.is_inexact(d):  # in a narrow dtype the numbers of classes would wrap
        x = lnp.astype(x, lnp.promote_types(d, np.int32))
    elif work_dtype(d) != d:
        x = lnp.astype(x, work_dtype(d))
    final = dtypes.canonical_float() if dtype is None else resolve_requested_dtype(dtype)
    if is_axis_name(axis):
        size = lax.axis_size(axis)
        if size != n:
            raise ValueError(f"one_hot: axis {axis!r} has {size} positions; expected num_classes={n}")
        return lnp.astype(lnp.equal(x, lax.axis_index(axis)), final)
    shape = typeof(x).shape
    at = check_axis("one_hot", axis, len(shape) + 1)
    classes = lnp.arange(n, dtype=typeof(x).dtype)
    return lnp.astype(lnp.equal(lnp.expand_dims(x, at), lnp.reshape(classes, (*[1] * at, n, *[1] * (len(shape) - at)))),
                      final)


def _check_num_classes(num_classes: Any) -> int:
    try:
        n = operator.index(num_classes)
    except TypeError:
        raise TypeError(f"one_hot: num_classes must be an integer; got {num_classes!r}") from None
    if n < 0:
        raise ValueError(f"one_hot: num_classes must not be negative; got {n}")
    return n
