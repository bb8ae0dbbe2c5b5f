"""Order statistics: quantiles, percentiles, medians."""
from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from lamina_autodiff import custom_jvp
from lamina_ir import config, dtypes
from lamina_ir.extend import docstring_entries
from lamina_tracing import Array, ArrayLike, AxisLike, lax
from lamina_tracing.extend import typeof

from .._core.promotion import aval, cast, fixed, inexact_dtype, literal, no_out, work_dtype
from .._core.public_api import public_api
from .._core.axes import with_axes
from .._core.select import choose_by
from .._core.named_axes import ReductionAxes, all_in_front, axes_of
from .._core.conversion import asarray
from .._elementwise.ufuncs import clip, multiply, true_divide
from .._elementwise.logic import isnan
from .._shape.layout import moveaxis, ravel, reshape
from .._reductions.reductions import sum as total
from .._indexing.take import take_along_axis
from .sorting import sort

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_MEDIAN = docstring_entries("""
    a: ordered array `[...]`, not complex; the result is NaN if an element is NaN.
    axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
    out: not supported, must be None: arrays never change.
    overwrite_input: no effect: arrays never change.
    keepdims: leave the reduced axes in place with length 1.
    ValueError: there are no elements along the axes, or `a` is complex.
    TypeError: `a` is neither an array nor a number.
    ShapeError: `axis` names an axis that `a` does not have, or one twice.
    UnboundAxisError: `axis` names a mapped axis that is not bound.
    NotImplementedError: `out` is given.
    """)

_METHODS = ("linear", "lower", "higher", "nearest", "midpoint")


def _even(place: Any) -> Any:
    return lax.round(place, lax.RoundingMethod.TO_NEAREST_EVEN)


@custom_jvp
def _ranked(lines: Any, *ranks: Any) -> tuple[Any, ...]:
    """Of lines `[..., n]` in order, NaN last, the elements of some ranks: each `[..., k]` to `[..., k]`."""
    ordered = sort(lines, -1)
    return tuple([take_along_axis(ordered, rank, -1, "clip") for rank in ranks])


def _ranked_jvp(primals: Any, tangents: Any) -> Any:
    """What becomes of an element of a rank becomes of that place of the line: no other is written in the reverse."""
    (lines, *ranks), line = primals, len(typeof(primals[0]).shape) - 1
    ordered, places = lax.sort((lines, lax.broadcasted_iota(np.int32, typeof(lines).shape, line)), dimension=line, num_keys=1)
    return (tuple([take_along_axis(ordered, rank, -1, "clip") for rank in ranks]),
            tuple([take_along_axis(tangents[0], take_along_axis(places, rank, -1, "clip"), -1, "clip") for rank in ranks]))


_ranked.defjvp(_ranked_jvp)


def _quantile(call: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, ignore_nan: bool) -> Any:
    if method not in _METHODS:
        raise ValueError(f"{call}: method must be one of {', '.join(_METHODS)}; got {method!r}")
    a = asarray(a) if isinstance(a, (list, tuple)) else a
    q = asarray(q) if isinstance(q, (list, tuple)) else q
    t, u = aval(call, a), aval(call, q, 1)
    if dtypes.is_complex(t.dtype):
        raise ValueError(f"{call}: complex numbers have no order; got {t.str_long()}")
    if len(u.shape) > 1:
        raise ValueError(f"{call}: q must be a number or have one axis; got {u.str_long()}")
    d = inexact_dtype(t.dtype, config.enable_x64.value)
    work = work_dtype(d)  # half precision cannot distinguish ranks
    a, q = cast(a, d), cast(q, work)
    axes = axes_of(call, axis, len(t.shape))
    kept = tuple(1 if i in axes else n for i, n in enumerate(t.shape))
    if isinstance(axes, ReductionAxes):
        a, lead = all_in_front(a, axes.names), len(axes.names)
        t, axes = typeof(a), (*range(lead), *(i + lead for i in axes))
    rest = tuple(n for i, n in enumerate(t.shape) if i not in axes)
    n = math.prod(t.shape[i] for i in axes)
    lines = reshape(moveaxis(a, axes, tuple(range(-len(axes), 0))), (*rest, n)) if axes else with_axes(a, (len(rest),))
    if n == 0:
        raise ValueError(f"{call}: {t.str_long()} has no elements along axes {axes}")
    if ignore_nan:
        count: Any = with_axes(total(lax.bitwise_not(isnan(lines)), -1), (len(rest),))  # [..., 1]
        top = cast(count, work) - 1
    else:
        top = lax.broadcast_in_dim(fixed(n - 1, work), (*rest, 1), ())
    qs = ravel(q)
    m = typeof(qs).shape[0]
    place = multiply(top, with_axes(qs, tuple(range(len(rest)))))  # [..., m]
    place = clip(place, 0, cast(top, work)) if ignore_nan else clip(place, 0, n - 1)
    lo = lax.floor(place)
    whole = dtypes.canonical_int()
    if method in ("linear", "midpoint"):
        wanted = [lo, lax.ceil(place)]
    else:
        wanted = [{"lower": lax.floor, "higher": lax.ceil, "nearest": _even}[method](place)]
    last = [] if ignore_nan else [lax.broadcast_in_dim(literal(n - 1, whole), (*rest, 1), ())]
    found = _ranked(lines, *(cast(w, whole) for w in wanted), *last)
    low, high = cast(found[0], work), cast(found[len(wanted) - 1], work)
    if method == "linear":
        part = lax.sub(place, lo)
        out = choose_by(part == 0, low, low * (1 - part) + high * part)  # exactly at an infinity, not near it
    else:
        out = (low + high) * literal(0.5, work) if method == "midpoint" else low
    out, nan = cast(out, d), literal(np.nan, d)
    bad = count == 0 if ignore_nan else isnan(found[-1])
    out = choose_by(bad, nan, out)
    out = moveaxis(out, -1, 0)
    if keepdims:
        out = reshape(out, (m, *kept))
    return out if u.shape else reshape(out, typeof(out).shape[1:])


def _share(call: str, q: Any) -> Any:
    q = asarray(q) if isinstance(q, (list, tuple)) else q
    d = aval(call, q, 1).dtype
    if not isinstance(q, (int, float)) and not dtypes.is_inexact(d):
        q = cast(q, inexact_dtype(d, config.enable_x64.value))
    return true_divide(q, 100.0)


class Quantile(Protocol):
    """The type of `quantile`, `percentile` and their variants that ignore NaN."""

    def __call__(self, a: ArrayLike, q: ArrayLike, axis: AxisLike = None, out: None = None,
                 overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
                 interpolation: str | None = None) -> Array: ...


def _quantile_function(name: str, percent: bool, ignore_nan: bool, says: str, example: str) -> Quantile:
    def op(a: ArrayLike, q: ArrayLike, axis: AxisLike = None, out: None = None, overwrite_input: bool = False,
           method: str = "linear", keepdims: bool = False, *, interpolation: str | None = None) -> Array:
        no_out(name, out)
        share = _share(name, q) if percent else q
        return _quantile(name, a, share, axis, interpolation or method, keepdims, ignore_nan)
    nan = "NaN is ignored" if ignore_nan else "the result is NaN if an element is NaN"
    shares = "percentages in [0, 100]" if percent else "fractions in [0, 1]"
    doc = f"""{says}

    Args:
      a: ordered array `[...]`, not complex; {nan}.
      q: {shares}, a number or `[k]`, may be traced; values outside count as the nearest bound.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      out: not supported, must be None: arrays never change.
      overwrite_input: no effect: arrays never change.
      method: result between two elements: "linear" interpolation, "lower", "higher", "nearest" (in the middle the even
        position), or "midpoint".
      keepdims: leave the reduced axes in place with length 1.
      interpolation: an older name of `method`.
    Returns:
      Float array of the remaining axes, after the axis of `q` if it has one, in the units of `a`; integers and booleans
      become float{"; NaN if all elements are NaN" if ignore_nan else ""}.
    Raises:
      ValueError: there are no elements along the axes, `a` is complex, `q` has more than one axis, or `method` is
        unknown.
      TypeError: `a` or `q` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Source: meaning of `numpy.{name}`, which raises if `q` is out of range.

    {example}
    """
    return public_api("axis", "out", "overwrite_input", "method", "keepdims", "interpolation", name=name, doc=doc)(op)


quantile = _quantile_function("quantile", False, False,
                              "Compute the values below which fractions `q` of the elements are.",
                              ">>> quantile(np.array([1., 3., 2.]), np.array([0.25, 1.]))\n"
                              "    Array([1.5, 3. ], dtype=float32)")
nanquantile = _quantile_function("nanquantile", False, True, "`quantile` ignoring NaN.",
                                 ">>> nanquantile(np.array([1., np.nan, 2.]), 0.5)\n    Array(1.5, dtype=float32)")
percentile = _quantile_function("percentile", True, False, "`quantile` with `q` in percent.",
                                ">>> percentile(np.array([1., 3., 2.]), 25)\n    Array(1.5, dtype=float32)")
nanpercentile = _quantile_function("nanpercentile", True, True, "`percentile` ignoring NaN.",
                                   ">>> nanpercentile(np.array([1., np.nan, 2.]), 50)\n    Array(1.5, dtype=float32)")


@public_api("axis", "out", "overwrite_input", "keepdims", entries=_MEDIAN)
def median(a: ArrayLike, axis: AxisLike = None, out: None = None, overwrite_input: bool = False,
           keepdims: bool = False) -> Array:
    """The middle element, or the mean of the two middle ones, along axes.

    Args: {a, axis, out, overwrite_input, keepdims}
    Returns:
      Float array of the remaining axes, in the units of `a`; integers and booleans become float.
    Raises: {ValueError, TypeError, ShapeError, UnboundAxisError, NotImplementedError}

    Source: meaning of `numpy.median`; of no elements NaN there.

    >>> median(np.array([3, 1, 2]))
    Array(2., dtype=float32)
    """
    no_out("median", out)
    return _quantile("median", a, 0.5, axis, "midpoint", keepdims, False)


@public_api("axis", "out", "overwrite_input", "keepdims", entries=_MEDIAN)
def nanmedian(a: ArrayLike, axis: AxisLike = None, out: None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Array:
    """`median` ignoring NaN.

    Args:
      a: ordered array `[...]`, not complex; NaN is left out.
      {axis, out, overwrite_input, keepdims}
    Returns:
      Float array of the remaining axes, in the units of `a`; integers and booleans become float; NaN where all
      elements are.
    Raises: {ValueError, TypeError, ShapeError, UnboundAxisError, NotImplementedError}

    Source: meaning of `numpy.nanmedian`; of no elements NaN there.

    >>> nanmedian(np.array([[1., np.nan, 2.], [3., 5., 4.]]), axis=1)
    Array([1.5, 4. ], dtype=float32)
    """
    no_out("nanmedian", out)
    return _quantile("nanmedian", a, 0.5, axis, "midpoint", keepdims, True)
