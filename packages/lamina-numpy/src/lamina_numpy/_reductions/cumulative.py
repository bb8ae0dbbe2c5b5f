"""Running sums and products."""
from __future__ import annotations

from typing import Any, Protocol

from lamina_ir import dtypes, shaped
from lamina_ir.typing import Function
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


class RunningReduction(Protocol):
    """The type of `cumsum`, `cumprod` and their variants that ignore NaN."""

    def __call__(self, a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None,
                 out: None = None) -> Array: ...


def _running_reduction(name: str, running: Function, nan_as: int | None, says: str, verb: str, derivative: str,
                       example: str) -> RunningReduction:
    def op(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        no_out(name, out)
        if nan_as is not None and dtypes.is_inexact(aval(name, a).dtype):
            a = choose_by(isnan(a), literal(nan_as, typeof(a).dtype), a)
        return _running(name, running, a, axis, dtype)
    op.__name__ = op.__qualname__ = name
    doc = f"""{says}

    Args:
      a: number or boolean array `[..., n, ...]`.
      axis: the axis of length `n`, or the name of a mapped one; None flattens `a` first.
      dtype: element type to {verb} in, and of the result; None for that of `a`, booleans as integers.
      out: not supported, must be None: arrays never change.
    Returns:
      Array of the shape of `a`; with one axis if `axis` is None.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      NotImplementedError: `out` is given.

    {derivative}Source: meaning of `numpy.{name}`.

    {example}
    """
    return public_api("axis", "dtype", "out", name=name, doc=doc)(along_axis()(op))


cumsum = _running_reduction("cumsum", lax.cumsum, None, "Running sum along an axis.", "sum",
                            "Derivative: linear; the transpose is the same sum from the other end.\n    ",
                            ">>> cumsum(np.array([1., 2., 3.]))\n    Array([1., 3., 6.], dtype=float32)")
cumprod = _running_reduction("cumprod", lax.cumprod, None, "Running product along an axis.", "multiply", "",
                             ">>> cumprod(np.array([1., 2., 3.]))\n    Array([1., 2., 6.], dtype=float32)")
nancumsum = _running_reduction("nancumsum", lax.cumsum, 0, "Running sum along an axis, with NaN as zero.", "sum", "",
                               ">>> nancumsum(np.array([1., np.nan, 3.]))\n    Array([1., 1., 4.], dtype=float32)")
nancumprod = _running_reduction("nancumprod", lax.cumprod, 1, "Running product along an axis, with NaN as one.",
                                "multiply", "",
                                ">>> nancumprod(np.array([2., np.nan, 3.]))\n    Array([2., 2., 6.], dtype=float32)")


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


class CumulativeReduction(Protocol):
    """The type of `cumulative_sum` and `cumulative_prod`."""

    def __call__(self, x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                 include_initial: bool = False) -> Array: ...


def _cumulative_reduction(name: str, running: Function, unit: int, says: str, first: str,
                          example: str) -> CumulativeReduction:
    def op(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
           include_initial: bool = False) -> Array:
        return _cumulative(name, running, unit, x, axis, dtype, include_initial)
    op.__name__ = op.__qualname__ = name
    doc = f"""{says}

    Args:
      x: number or boolean array `[..., n, ...]` of at least one axis.
      axis: the axis of length `n`, or the name of a mapped one; None only if `x` has one axis.
      dtype: element type of the result; None for that of `x`, integers narrower than the default integer widened.
      include_initial: whether a {first} comes first.
    Returns:
      Array of the shape of `x`; the axis has length `n + 1` with `include_initial`.
    Raises:
      ValueError: `axis` is None although `x` has several axes, or `x` has none.
      TypeError: `x` is neither an array nor a number.
      ShapeError: `axis` is outside `[-x.ndim, x.ndim)`.

    Source: array API standard, `{name}`.

    {example}
    """
    return public_api("axis", "dtype", "include_initial", name=name, doc=doc)(along_axis()(op))


cumulative_sum = _cumulative_reduction(
    "cumulative_sum", lax.cumsum, 0, "Running sum along an axis, as the array API defines it.", "zero",
    ">>> cumulative_sum(np.array([1., 2.]), include_initial=True)\n    Array([0., 1., 3.], dtype=float32)")
cumulative_prod = _cumulative_reduction(
    "cumulative_prod", lax.cumprod, 1, "Running product along an axis, as the array API defines it.", "one",
    ">>> cumulative_prod(np.array([2., 3.]), include_initial=True)\n    Array([1., 2., 6.], dtype=float32)")
