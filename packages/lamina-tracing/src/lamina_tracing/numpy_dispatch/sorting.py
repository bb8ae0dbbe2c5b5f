"""Sorting, places in sorted arrays, medians and quantiles."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import lax
from .._core.tracer import typeof
from .elementwise import isnan, where
from ._registry import as_array, axes_of, flat_or_along, inexact, int_dtype, ndim_of, row, rows, shape_of
from .indexing import gathered

__all__: list[str] = []


@row("sort")
def sort(a: Any, axis: Any = -1, kind: Any = None, order: None = None, *, stable: Any = None) -> Any:
    x, along = flat_or_along("sort", a, axis)
    return lax.sort(x, along)


@row("argsort")
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: None = None, *, stable: Any = None) -> Any:
    x, along = flat_or_along("argsort", a, axis)
    places = lax.broadcasted_iota(int_dtype(), shape_of(x), along)
    return lax.sort((lax.stop_gradient(x), places), along)[1]


@row("partition")
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: None = None) -> Any:
    return sort(a, axis)


@row("argpartition")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: None = None) -> Any:
    return argsort(a, axis)


@row("lexsort")
def lexsort(keys: Any, axis: int = -1) -> Any:
    xs = [lax.stop_gradient(x) for x in (keys if isinstance(keys, (list, tuple)) else rows["unstack"](keys))]
    along, = axes_of("lexsort", (axis,), xs[0])
    places = lax.broadcasted_iota(int_dtype(), shape_of(xs[0]), along)
    return lax.sort((*reversed(xs), places), along, num_keys=len(xs))[-1]


@row("searchsorted")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """By counting: each element with each."""
    if side not in ("left", "right"):
        raise ValueError(f"numpy.searchsorted: side must be 'left' or 'right'; got {side!r}")
    a, v = lax.stop_gradient(as_array(a)), lax.stop_gradient(as_array(v))
    if sorter is not None:
        a = rows["take"](a, sorter)
    below = rows["less" if side == "left" else "less_equal"](a, lax.expand_dims(v, (ndim_of(v),)))
    return rows["sum"](below, -1)


@row("digitize")
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    bins = np.asarray(as_array(bins))
    if bins.ndim != 1 or len(bins) > 1 and not ((np.diff(bins) >= 0).all() or (np.diff(bins) <= 0).all()):
        raise ValueError("numpy.digitize: bins must be one axis that rises or falls")
    side = "left" if right else "right"
    if len(bins) > 1 and bins[0] > bins[-1]:
        return rows["subtract"](len(bins), searchsorted(bins[::-1], x, side))
    return searchsorted(bins, x, side)


# --- quantiles -------------------------------------------------------------------------------------------------------


def _lowest_and_share(q: np.ndarray, n: int, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Below which element a quantile is, and how far on the way to the next one."""
    at = q * (n - 1)
    low = np.floor(at)
    if method == "linear":
        return low, at - low
    if method == "lower":
        return low, 0 * at
    if method == "higher":
        return np.ceil(at), 0 * at
    if method == "midpoint":
        return low, np.where(at > low, 0.5, 0.0)
    if method == "nearest":
        return np.round(at), 0 * at
    raise NotImplementedError("numpy.quantile of a traced value: method must be 'linear', 'lower', 'higher', 'midpoint' or "
                              f"'nearest'; got {method!r}")


def _quantile(call: str, a: Any, q: Any, axis: Any, keepdims: Any, method: str) -> Any:
    x = inexact(a)
    q = np.asarray(q, np.float64)
    if q.size and (q.min() < 0 or q.max() > 1):
        raise ValueError(f"numpy.{call}: quantiles must be between 0 and 1 (percentiles: and 100)")
    axes = axes_of(call, axis, x)
    shape = shape_of(x)
    rest = [i for i in range(len(shape)) if i not in axes]
    n = math.prod([shape[i] for i in axes])
    x = sort(lax.reshape(lax.transpose(x, (*rest, *axes)), (*[shape[i] for i in rest], n)))
    low, share = _lowest_and_share(q, n, method)
    last = len(rest)
    dtype = typeof(x).dtype
    below, above = (gathered(x, np.clip(p, 0, n - 1).astype(int), last) for p in (low, low + 1))
    out = below if not share.any() else lax.add(below, rows["multiply"](lax.sub(above, below), share.astype(dtype)))
    none = isnan(lax.index_in_dim(x, n - 1, last, False))
    if q.ndim:
        none = rows["expand_dims"](none, tuple(range(last, last + q.ndim)))
    out = where(none, dtype.type(math.nan), out)
    out = rows["moveaxis"](out, tuple(range(last, last + q.ndim)), tuple(range(q.ndim))) if q.ndim else out
    if keepdims is np._NoValue or not keepdims:
        return out
    return lax.reshape(out, (*q.shape, *[1 if i in axes else m for i, m in enumerate(shape)]))


@row("quantile")
def quantile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
             keepdims: bool = False, *, weights: None = None) -> Any:
    _no_weights("quantile", weights)
    return _quantile("quantile", a, q, axis, keepdims, method)


def _no_weights(call: str, weights: Any) -> None:
    if weights is not None:
        raise NotImplementedError(f"numpy.{call} of a traced value: weights= is not supported; sort and sum them with "
                                  "numpy.argsort, numpy.take and numpy.cumsum")


@row("percentile")
def percentile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
               keepdims: bool = False, *, weights: None = None) -> Any:
    _no_weights("percentile", weights)
    return _quantile("percentile", a, np.asarray(q, np.float64) / 100, axis, keepdims, method)


@row("median")
def median(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    return _quantile("median", a, 0.5, axis, keepdims, "midpoint")

