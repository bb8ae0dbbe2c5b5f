"""Order statistics: quantiles, percentiles, medians."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from lamina_ir import config, dtypes
from lamina_tracing import Array, ArrayLike, AxisLike, lax
from lamina_tracing.extend import typeof

from .._ground.promotion import aval, cast, fixed, inexact_dtype, literal, no_out
from .._ground.publishing import public
from .._ground.axes import with_axes
from .._ground.choosing import choose_by
from .._ground.conversion import asarray
from .._elementwise.ufuncs import clip, multiply, true_divide
from .._elementwise.logic import isnan
from .._shape.layout import moveaxis, ravel, reshape
from .._reduce.reductions import axes_of
from .._reduce.reductions import any as any_
from .._reduce.reductions import sum as total
from .._index.taking import take_along_axis
from .sorting import sort

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_METHODS = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile(call: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, ignore_nan: bool) -> Any:
    if method not in _METHODS:
        raise ValueError(f"{call}: method must be one of {', '.join(_METHODS)}; got {method!r}")
    a = asarray(a) if isinstance(a, (list, tuple)) else a
    q = asarray(q) if isinstance(q, (list, tuple)) else q
    t, u = aval(call, a), aval(call, q, 1)
    if dtypes.is_complex(t.dtype):
        raise ValueError(f"{call}: complex numbers have no order; got {t.long()}")
    if len(u.shape) > 1:
        raise ValueError(f"{call}: q must be a number or have one axis; got {u.long()}")
    d = inexact_dtype(t.dtype, config.enable_x64.value)
    a, q = cast(a, d), cast(q, d)
    axes = axes_of(call, axis, len(t.shape))
    kept = tuple(1 if i in axes else n for i, n in enumerate(t.shape))
    rest = tuple(n for i, n in enumerate(t.shape) if i not in axes)
    n = math.prod(t.shape[i] for i in axes)
    lines = reshape(moveaxis(a, axes, tuple(range(-len(axes), 0))), (*rest, n)) if axes else with_axes(a, (len(rest),))
    if n == 0:
        raise ValueError(f"{call}: {t.long()} has no elements along axes {axes}")
    lines = sort(lines, -1)
    missing = isnan(lines)
    if ignore_nan:
        count: Any = with_axes(total(lax.bitwise_not(missing), -1), (len(rest),))  # [..., 1]
        top = cast(count, d) - 1
    else:
        top = lax.broadcast_in_dim(fixed(n - 1, d), (*rest, 1), ())
    qs = ravel(q)
    m = typeof(qs).shape[0]
    place = multiply(top, with_axes(qs, tuple(range(len(rest)))))  # [..., m]
    place = clip(place, 0, cast(top, d)) if ignore_nan else clip(place, 0, n - 1)
    lo = lax.floor(place)
    hi = lax.ceil(place)
    whole = dtypes.canonical_int()
    low = take_along_axis(lines, cast(lo, whole), -1, "clip")
    high = take_along_axis(lines, cast(hi, whole), -1, "clip")
    part = lax.sub(place, lo)
    if method == "linear":
        out = low * (1 - part) + high * part
    elif method == "lower":
        out = low
    elif method == "higher":
        out = high
    elif method == "midpoint":
        out = (low + high) * literal(0.5, d)
    else:
        nearest = cast(lax.round(place, lax.RoundingMethod.TO_NEAREST_EVEN), whole)
        out = take_along_axis(lines, nearest, -1, "clip")
    nan = literal(np.nan, d)
    bad = with_axes(any_(missing, -1), (len(rest),)) if not ignore_nan else count == 0
    out = choose_by(bad, nan, out)
    out = moveaxis(out, -1, 0)
    if keepdims:
        out = reshape(out, (m, *kept))
    return out if u.shape else reshape(out, typeof(out).shape[1:])


@public("axis", "out", "overwrite_input", "method", "keepdims")
def quantile(a: ArrayLike, q: ArrayLike, axis: AxisLike = None, out: None = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: bool = False) -> Array:
    """The value below which a share `q` of the elements lies.

    Args:
      a: numbers; the result is NaN where one is.
      q: shares in [0, 1]; its axis comes first in the result.
      axis: an int, a tuple of ints, or None for all.
      method: between two elements: "linear", "lower", "higher", "nearest" or "midpoint".
    """
    no_out("quantile", out)
    return _quantile("quantile", a, q, axis, method, keepdims, False)


@public("axis", "out", "overwrite_input", "method", "keepdims")
def nanquantile(a: ArrayLike, q: ArrayLike, axis: AxisLike = None, out: None = None, overwrite_input: bool = False,
                method: str = "linear", keepdims: bool = False) -> Array:
    """`quantile` ignoring NaN."""
    no_out("nanquantile", out)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True)


def _share(q: Any) -> Any:
    return true_divide(asarray(q) if isinstance(q, (list, tuple)) else q, 100.0)


@public("axis", "out", "overwrite_input", "method", "keepdims")
def percentile(a: ArrayLike, q: ArrayLike, axis: AxisLike = None, out: None = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: bool = False) -> Array:
    """`quantile` with `q` in percent."""
    no_out("percentile", out)
    return _quantile("percentile", a, _share(q), axis, method, keepdims, False)


@public("axis", "out", "overwrite_input", "method", "keepdims")
def nanpercentile(a: ArrayLike, q: ArrayLike, axis: AxisLike = None, out: None = None, overwrite_input: bool = False,
                  method: str = "linear", keepdims: bool = False) -> Array:
    """`percentile` ignoring NaN."""
    no_out("nanpercentile", out)
    return _quantile("nanpercentile", a, _share(q), axis, method, keepdims, True)


@public("axis", "out", "overwrite_input", "keepdims")
def median(a: ArrayLike, axis: AxisLike = None, out: None = None, overwrite_input: bool = False,
           keepdims: bool = False) -> Array:
    """The middle element, or the mean of the two middle ones.

    >>> median(np.array([3, 1, 2]))
    Array(2., dtype=float32)
    """
    no_out("median", out)
    return _quantile("median", a, 0.5, axis, "midpoint", keepdims, False)


@public("axis", "out", "overwrite_input", "keepdims")
def nanmedian(a: ArrayLike, axis: AxisLike = None, out: None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Array:
    """`median` ignoring NaN."""
    no_out("nanmedian", out)
    return _quantile("nanmedian", a, 0.5, axis, "midpoint", keepdims, True)
