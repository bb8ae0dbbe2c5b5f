"""Running sums and products."""
from __future__ import annotations

from typing import Any

from lamina_ir import dtypes, shaped
from lamina_tracing import Array, ArrayLike, DTypeLike, lax
from lamina_tracing.extend import check_axis, typeof, resolve_requested_dtype

from .._core.promotion import aval, cast, literal, no_out
from .._core.named_axes import along_axis
from .._core.public_api import public_api
from .._core.select import choose_by
from .._elementwise.logic import isnan
from .._shape.layout import ravel
from .reductions import sum_dtype

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "nancumprod", "nancumsum"]


def _running(call: str, running: Any, a: Any, axis: int | None, dtype: Any) -> Any:
    t = aval(call, a)
    d = resolve_requested_dtype(dtype) if dtype is not None else t.dtype
    if d == dtypes.BOOL:
        if dtype is None:
            d = dtypes.canonical_int()
        else:  # sums of booleans are "or", their products "and"
            running = lax.cummax if running is lax.cumsum else lax.cummin
    a = cast(a, d)
    if axis is None or not t.shape:  # a number is one element in a row, as in NumPy
        a, t = ravel(a), shaped((a.size,), d)
    return running(a, check_axis(call, 0 if axis is None else axis, len(t.shape)))


@public_api("axis", "dtype", "out")
@along_axis()
def cumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Running sum along an axis.

    Args:
      a: number or boolean array `[..., n, ...]`.
      axis: the axis of length `n`, or the name of a mapped one; None goes over all elements in order.
      dtype: element type to sum in, and of the result; None for that of `a`, booleans as integers.
      out: not supported, must be None: arrays never change.
    Returns:
      Array of the shape of `a`; with one axis where `axis` is None.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      NotImplementedError: `out` is given.

    Derivative: linear; the transpose is the same sum from the other end.
    Source: meaning of `numpy.cumsum`.

    >>> cumsum(np.array([1., 2., 3.]))
    Array([1., 3., 6.], dtype=float32)
    """
    no_out("cumsum", out)
    return _running("cumsum", lax.cumsum, a, axis, dtype)


@public_api("axis", "dtype", "out")
@along_axis()
def cumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Running product along an axis.

    Args:
      a: number or boolean array `[..., n, ...]`.
      axis: the axis of length `n`, or the name of a mapped one; None goes over all elements in order.
      dtype: element type to multiply in, and of the result; None for that of `a`, booleans as integers.
      out: not supported, must be None: arrays never change.
    Returns:
      Array of the shape of `a`; with one axis where `axis` is None.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      NotImplementedError: `out` is given.

    Source: meaning of `numpy.cumprod`.

    >>> cumprod(np.array([1., 2., 3.]))
    Array([1., 2., 6.], dtype=float32)
    """
    no_out("cumprod", out)
    return _running("cumprod", lax.cumprod, a, axis, dtype)


def _without_nan(call: str, a: Any, unit: int) -> Any:
    d = aval(call, a).dtype
    return choose_by(isnan(a), literal(unit, d), a) if dtypes.is_inexact(d) else a


@public_api("axis", "dtype", "out")
@along_axis()
def nancumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Running sum along an axis, NaN counting as zero.

    Args:
      a: number or boolean array `[..., n, ...]`.
      axis: the axis of length `n`, or the name of a mapped one; None goes over all elements in order.
      dtype: element type to sum in, and of the result; None for that of `a`, booleans as integers.
      out: not supported, must be None: arrays never change.
    Returns:
      Array of the shape of `a`; with one axis where `axis` is None.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      NotImplementedError: `out` is given.

    Source: meaning of `numpy.nancumsum`.

    >>> nancumsum(np.array([1., np.nan, 3.]))
    Array([1., 1., 4.], dtype=float32)
    """
    return cumsum(_without_nan("nancumsum", a, 0), axis, dtype, out)


@public_api("axis", "dtype", "out")
@along_axis()
def nancumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Running product along an axis, NaN counting as one.

    Args:
      a: number or boolean array `[..., n, ...]`.
      axis: the axis of length `n`, or the name of a mapped one; None goes over all elements in order.
      dtype: element type to multiply in, and of the result; None for that of `a`, booleans as integers.
      out: not supported, must be None: arrays never change.
    Returns:
      Array of the shape of `a`; with one axis where `axis` is None.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      NotImplementedError: `out` is given.

    Source: meaning of `numpy.nancumprod`.

    >>> nancumprod(np.array([2., np.nan, 3.]))
    Array([2., 2., 6.], dtype=float32)
    """
    return cumprod(_without_nan("nancumprod", a, 1), axis, dtype, out)


def _cumulative(call: str, running: Any, unit: int, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Any:
    t = aval(call, x)
    if not t.shape or axis is None and len(t.shape) > 1:
        raise ValueError(f"{call}: name an axis of {t.str_long()}; only one-dimensional arrays may leave it out")
    at = 0 if axis is None else check_axis(call, axis, len(t.shape))
    out = _running(call, running, x, at, sum_dtype(t.dtype) if dtype is None else dtype)
    if include_initial:
        config_ = tuple((1, 0, 0) if i == at else (0, 0, 0) for i in range(len(t.shape)))
        out = lax.pad(out, literal(unit, typeof(out).dtype), config_)
    return out


@public_api("axis", "dtype", "include_initial")
@along_axis()
def cumulative_sum(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                   include_initial: bool = False) -> Array:
    """Running sum along an axis, as the array API defines it.

    Args:
      x: number or boolean array `[..., n, ...]` of at least one axis.
      axis: the axis of length `n`, or the name of a mapped one; only arrays of one axis may leave it out.
      dtype: element type of the result; None for that of `x`, integers narrower than the default integer widened.
      include_initial: whether a zero comes first.
    Returns:
      Array of the shape of `x`; the axis has length `n + 1` with `include_initial`.
    Raises:
      ValueError: `axis` is left out though there are several axes, or there is none.
      TypeError: `x` is neither an array nor a number.
      ShapeError: `axis` is outside `[-x.ndim, x.ndim)`.

    Source: array API standard, `cumulative_sum`.

    >>> cumulative_sum(np.array([1., 2.]), include_initial=True)
    Array([0., 1., 3.], dtype=float32)
    """
    return _cumulative("cumulative_sum", lax.cumsum, 0, x, axis, dtype, include_initial)


@public_api("axis", "dtype", "include_initial")
@along_axis()
def cumulative_prod(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                    include_initial: bool = False) -> Array:
    """Running product along an axis, as the array API defines it.

    Args:
      x: number or boolean array `[..., n, ...]` of at least one axis.
      axis: the axis of length `n`, or the name of a mapped one; only arrays of one axis may leave it out.
      dtype: element type of the result; None for that of `x`, integers narrower than the default integer widened.
      include_initial: whether a one comes first.
    Returns:
      Array of the shape of `x`; the axis has length `n + 1` with `include_initial`.
    Raises:
      ValueError: `axis` is left out though there are several axes, or there is none.
      TypeError: `x` is neither an array nor a number.
      ShapeError: `axis` is outside `[-x.ndim, x.ndim)`.

    Source: array API standard, `cumulative_prod`.

    >>> cumulative_prod(np.array([2., 3.]), include_initial=True)
    Array([1., 2., 6.], dtype=float32)
    """
    return _cumulative("cumulative_prod", lax.cumprod, 1, x, axis, dtype, include_initial)
