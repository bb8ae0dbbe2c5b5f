"""Order statistics and covariances."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import config, dtypes, prims
from lamina_tracing.extend import bind, typeof

from ._averages import mean
from ._conversion import asarray
from ._diagonals import diagonal
from ._logic import isnan
from ._promotion import aval, cast, fixed, inexact_dtype, literal, no_out, promote_all
from ._publish import public
from ._reductions import any as any_
from ._reductions import axes_of
from ._reductions import sum as total
from ._selection import choose_by
from ._shape import moveaxis, ravel, reshape, with_axes
from ._sorting import sort
from ._taking import take_along_axis
from ._ufuncs import clip, conj, multiply, sqrt, true_divide

__all__ = ["corrcoef", "cov", "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

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
    lines = reshape(moveaxis(a, axes, tuple(range(-len(axes), 0))), (*rest, -1)) if axes else with_axes(a, (len(rest),))
    n = typeof(lines).shape[-1]
    if n == 0:
        raise ValueError(f"{call}: {t.long()} has no elements along axes {axes}")
    lines = sort(lines, -1)
    missing = isnan(lines)
    if ignore_nan:
        count: Any = with_axes(total(bind(prims.not_p, missing), -1), (len(rest),))  # [..., 1]
        top = cast(count, d) - 1
    else:
        top = bind(prims.broadcast_in_dim_p, fixed(n - 1, d), shape=(*rest, 1), broadcast_dimensions=())
    qs = ravel(q)
    m = typeof(qs).shape[0]
    place = multiply(top, qs)  # [..., m]
    place = clip(place, 0, cast(top, d)) if ignore_nan else clip(place, 0, n - 1)
    lo = bind(prims.floor_p, place)
    hi = bind(prims.ceil_p, place)
    whole = dtypes.canonical_int()
    low = take_along_axis(lines, cast(lo, whole), -1, "clip")
    high = take_along_axis(lines, cast(hi, whole), -1, "clip")
    part = bind(prims.sub_p, place, lo)
    if method == "linear":
        out = low * (1 - part) + high * part
    elif method == "lower":
        out = low
    elif method == "higher":
        out = high
    elif method == "midpoint":
        out = (low + high) * literal(0.5, d)
    else:
        nearest = cast(bind(prims.round_p, place, rounding_method=1), whole)
        out = take_along_axis(lines, nearest, -1, "clip")
    nan = literal(np.nan, d)
    bad = with_axes(any_(missing, -1), (len(rest),)) if not ignore_nan else count == 0
    out = choose_by(bad, nan, out)
    out = moveaxis(out, -1, 0)
    if keepdims:
        out = reshape(out, (m, *kept))
    return out if u.shape else reshape(out, typeof(out).shape[1:])


@public("axis", "out", "overwrite_input", "method", "keepdims")
def quantile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: bool = False) -> Any:
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
def nanquantile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
                method: str = "linear", keepdims: bool = False) -> Any:
    """`quantile` ignoring NaN."""
    no_out("nanquantile", out)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True)


def _share(q: Any) -> Any:
    return true_divide(asarray(q) if isinstance(q, (list, tuple)) else q, 100.0)


@public("axis", "out", "overwrite_input", "method", "keepdims")
def percentile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: bool = False) -> Any:
    """`quantile` with `q` in percent."""
    no_out("percentile", out)
    return _quantile("percentile", a, _share(q), axis, method, keepdims, False)


@public("axis", "out", "overwrite_input", "method", "keepdims")
def nanpercentile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
                  method: str = "linear", keepdims: bool = False) -> Any:
    """`percentile` ignoring NaN."""
    no_out("nanpercentile", out)
    return _quantile("nanpercentile", a, _share(q), axis, method, keepdims, True)


@public("axis", "out", "overwrite_input", "keepdims")
def median(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The middle element, or the mean of the two middle ones.

    >>> median(np.array([3, 1, 2]))
    Array(2., dtype=float32)
    """
    no_out("median", out)
    return _quantile("median", a, 0.5, axis, "midpoint", keepdims, False)


@public("axis", "out", "overwrite_input", "keepdims")
def nanmedian(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Any:
    """`median` ignoring NaN."""
    no_out("nanmedian", out)
    return _quantile("nanmedian", a, 0.5, axis, "midpoint", keepdims, True)


@public("rowvar", "bias", "ddof")
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
        fweights: Any = None, aweights: Any = None) -> Any:
    """Covariance matrix of variables in rows (columns when `rowvar` is False).

    Args:
      m, y: observations, `[variables, n]`; `y` adds more variables.
      bias: divide by n rather than n - 1; `ddof` overrides.
      fweights, aweights: how often, and how heavily, each observation counts.
    """
    from ._joins import concatenate
    m = asarray(m) if isinstance(m, (list, tuple)) else m
    xs = [m] if y is None else [m, asarray(y) if isinstance(y, (list, tuple)) else y]
    rows = []
    for x in promote_all("cov", xs):
        t = aval("cov", x)
        if len(t.shape) > 2:
            raise ValueError(f"cov: expected at most two axes; got {t.long()}")
        x = cast(x, inexact_dtype(t.dtype, config.enable_x64.value))
        x = reshape(x, (1,) * (2 - len(t.shape)) + t.shape)
        rows.append(moveaxis(x, 0, 1) if not rowvar and len(t.shape) == 2 else x)
    x = rows[0] if len(rows) == 1 else concatenate(rows, 0)
    d = typeof(x).dtype
    n = typeof(x).shape[1]
    if ddof is None:
        ddof = 0 if bias else 1
    w = None
    for weights in (fweights, aweights):
        if weights is not None:
            weights = cast(weights, dtypes.real_of(d))
            w = weights if w is None else multiply(w, weights)
    if w is None:
        center = x - mean(x, 1, None, None, True)
        scale: Any = n - ddof
        right = center
        scale = literal(scale if scale > 0 else np.nan if scale == 0 else scale, d)
    else:
        w_sum = total(w)
        center = x - with_axes(true_divide(total(x * w, 1), w_sum), (1,))
        right = center * w
        if ddof == 0:
            scale = w_sum
        elif aweights is None:
            scale = w_sum - ddof
        else:
            scale = w_sum - ddof * total(w * cast(aweights, dtypes.real_of(d))) / w_sum
    from ._products import matmul
    out = true_divide(matmul(center, moveaxis(conj(right), 0, 1)), scale)
    return reshape(out, ()) if typeof(out).shape == (1, 1) else out


@public("rowvar")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """Correlation coefficients of variables in rows."""
    c = cov(x, y, rowvar)
    if not typeof(c).shape:
        return true_divide(c, c)
    spread = sqrt(bind(prims.real_p, diagonal(c)) if dtypes.is_complex(typeof(c).dtype) else diagonal(c))
    c = c / with_axes(spread, (1,)) / with_axes(spread, (0,))
    if dtypes.is_complex(typeof(c).dtype):
        return bind(prims.complex_p, clip(bind(prims.real_p, c), -1, 1), clip(bind(prims.imag_p, c), -1, 1))
    return clip(c, -1, 1)


