"""Means, variances and weighted averages along axes; half precision is summed in float32."""
from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from lamina_ir import config, dtypes, prims
from lamina_tracing import Array, ArrayLike, AxisLike, DTypeLike, lax
from lamina_tracing.extend import typeof, resolve_requested_dtype

from .._core.promotion import aval, cast, convert, equation, fixed, inexact_dtype, literal, no_out, pair, work_dtype
from .._core.public_api import public_api
from .._core.select import choose_by
from .._core.named_axes import axes_of, count_along, kept, reduced
from .._elementwise.ufuncs import multiply, true_divide
from ._docstrings import MEAN, REDUCTION
from .reductions import fitted
from .reductions import sum as total_of

__all__ = ["average", "mean", "std", "var"]


def _float_of(call: str, a: Any, dtype: Any) -> tuple[Any, np.dtype, np.dtype]:
    """(`a` in the dtype to compute in, that dtype, dtype of the result)."""
    d = aval(call, a).dtype
    final = inexact_dtype(d, config.enable_x64.value) if dtype is None else resolve_requested_dtype(dtype)
    work = work_dtype(final)
    return cast(a, work), work, final


@public_api("axis", "dtype", "out", "keepdims", entries=MEAN)
def mean(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
         *, where: ArrayLike | None = None) -> Array:
    """Average along axes, in float.

    Args: {a, axis, dtype, out, keepdims, where}
    Returns:
      Array of the remaining axes, in the units of `a`; NaN if there are no elements. Half precision is summed
      in float32.
    Raises: {TypeError, ShapeError, UnboundAxisError, NotImplementedError}

    Derivative: linear; the transpose repeats and divides.
    Source: meaning of `numpy.mean`.

    >>> mean(np.array([1, 2]))
    Array(1.5, dtype=float32)
    >>> mean(np.array([[1., 5.], [3., 7.]]), axis=0, where=np.array([True, False])[:, None])
    Array([1., 5.], dtype=float32)
    """
    no_out("mean", out)
    a, work, final = _float_of("mean", a, dtype)
    shape = typeof(a).shape
    axes = axes_of("mean", axis, len(shape))
    if where is None:
        total = equation(prims.reduce_sum_p, a, axes=axes) if type(axes) is tuple else reduced(prims.reduce_sum_p, a, axes)
        count: Any = literal(count_along(axes, shape), work)
    else:
        total = lax.reduce_sum(choose_by(where, a, literal(0, work)), axes)
        count = cast(lax.reduce_sum(cast(fitted("mean", where, shape), work), axes), work)
    out_ = equation(prims.div_p, total, count)
    return kept(out_ if work == final else convert(out_, final), axes, keepdims)


def _variance(call: str, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool, where: Any, mean_of: Any) -> Any:
    if dtype is not None:  # whole numbers do not hold a variance: float for them here too
        dtype = inexact_dtype(resolve_requested_dtype(dtype), config.enable_x64.value)
    a, work, final = _float_of(call, a, dtype)
    shape = typeof(a).shape
    axes = axes_of(call, axis, len(shape))
    if where is not None:
        where = fitted(call, where, shape)
    if mean_of is None:  # over all axes the mean has rank 0 and needs no broadcast
        mean_of = mean(a, axes, None, None, len(axes) < len(shape), where=where)
    gap = equation(prims.sub_p, *pair(call, a, mean_of))
    if where is not None:  # before it is squared: the derivative of what is left out may be NaN
        gap = choose_by(where, gap, literal(0, work))
    part = dtypes.real_dtype(work)
    if dtypes.is_complex(work):
        square = lax.add(lax.integer_pow(lax.real(gap), 2), lax.integer_pow(lax.imag(gap), 2))
    else:
        square = equation(prims.integer_pow_p, gap, y=2)
    if where is None:
        count: Any = count_along(axes, shape)
    else:
        count = lax.reduce_sum(cast(where, part), axes)
    total = equation(prims.reduce_sum_p, square, axes=axes) if type(axes) is tuple \
        else reduced(prims.reduce_sum_p, square, axes)
    if isinstance(count, int) and isinstance(ddof, (int, float)):
        left = count - ddof
        out = equation(prims.div_p, total, literal(left if left > 0 else np.nan, part))
    else:
        rest = lax.sub(*pair(call, cast(count, part), cast(ddof, part)))
        good = lax.gt(rest, literal(0, part))
        out = choose_by(good, lax.div(*pair(call, total, choose_by(good, rest, literal(1, part)))),
                        literal(np.nan, part))
    real_final = dtypes.real_dtype(final)
    return kept(out if part == real_final else convert(out, real_final), axes, keepdims)


def _ddof(call: str, ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if type(ddof) in (int, float) and ddof:
        raise ValueError(f"{call}: ddof and correction mean the same; give one")
    return correction


class Variance(Protocol):
    """The type of `var` and `std`."""

    def __call__(self, a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
                 ddof: float = 0, keepdims: bool = False, *, where: ArrayLike | None = None,
                 mean: ArrayLike | None = None, correction: float | None = None) -> Array: ...


def _variance_function(name: str, root: bool, says: str, notes: str, example: str) -> Variance:
    def op(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
           keepdims: bool = False, *, where: ArrayLike | None = None, mean: ArrayLike | None = None,
           correction: float | None = None) -> Array:
        no_out(name, out)
        square = _variance(name, a, axis, dtype, _ddof(name, ddof, correction), keepdims, where, mean)
        return lax.sqrt(square) if root else square
    doc = f"""{says}

    Args: {{a, axis, dtype, out, ddof, keepdims, where, mean, correction}}
    Returns:
      Real array of the remaining axes; NaN if there are at most `ddof` elements.
    Raises: {{TypeError, ShapeError, UnboundAxisError, ValueError, NotImplementedError}}

    {notes}

    {example}
    """
    return public_api("axis", "dtype", "out", "ddof", "keepdims", "correction", name=name, doc=doc, entries=MEAN)(op)


var = _variance_function("var", False, "Mean squared distance from the mean along axes, in squared units of `a`.",
                         "Source: meaning of `numpy.var`; two passes, the mean first.",
                         ">>> var(np.array([1., 3.])), var(np.array([1., 3.]), ddof=1)\n"
                         "    (Array(1., dtype=float32), Array(2., dtype=float32))")
std = _variance_function("std", True, "Standard deviation along axes: the square root of `var`, in units of `a`.",
                         "Derivative: infinite or NaN if all elements are equal, as that of the square root at 0.\n"
                         "    Source: meaning of `numpy.std`.",
                         ">>> std(np.array([1., 5.]))\n    Array(2., dtype=float32)")


@public_api("axis", "returned", "keepdims", entries=REDUCTION)
def average(a: ArrayLike, axis: AxisLike = None, weights: ArrayLike | None = None, returned: bool = False,
            keepdims: bool = False) -> Any:
    """Mean along axes, weighted.

    Args:
      {a, axis}
      weights: numbers of the shape of `a`, or of its `axis`; None weighs all alike.
      returned: whether the sum of the weights is wanted too.
      keepdims: leave the reduced axes in place with length 1.
    Returns:
      Float array of the remaining axes, in the units of `a`; with `returned` a pair, the sum of the weights
      second. NaN or infinite where the weights add up to 0.
    Raises:
      {TypeError, ShapeError, UnboundAxisError}
      ValueError: `weights` has another shape.

    Source: meaning of `numpy.average`.

    >>> average(np.array([1., 4.]), weights=np.array([2., 1.]))
    Array(2., dtype=float32)
    >>> average(np.array([[1., 4.], [3., 0.]]), axis=1, weights=np.array([2, 1]), returned=True)
    (Array([2., 2.], dtype=float32), Array([3., 3.], dtype=float32))
    """
    shape = aval("average", a).shape
    axes = axes_of("average", axis, len(shape))
    if weights is None:
        out = mean(a, axes, None, None, keepdims)
        count = fixed(count_along(axes, shape), typeof(out).dtype)
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
    final = inexact_dtype(typeof(pair("average", a, weights)[0]).dtype, config.enable_x64.value)
    work = work_dtype(final)
    a, weights = cast(a, work), cast(weights, work)
    total = total_of(weights, axes, None, None, keepdims)
    out = true_divide(total_of(multiply(a, weights), axes, None, None, keepdims), total)
    return (cast(out, final), cast(total, final)) if returned else cast(out, final)
