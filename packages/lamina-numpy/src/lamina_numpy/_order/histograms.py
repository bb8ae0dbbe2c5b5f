"""Counts per value and per bin."""
from __future__ import annotations

import builtins
from typing import Any

import numpy as np
from lamina_ir import ConcretizationError, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import Tracer, typeof

from .._ground.promotion import cast, literal
from .._ground.publishing import core
from .._ground.choosing import choose_by
from .._ground.conversion import asarray
from .._elementwise.ufuncs import true_divide
from .._shape.layout import ravel, reshape
from .._make.creation import zeros
from .._make.ranges import linspace
from .._reduce.reductions import max as highest
from .._reduce.reductions import min as lowest
from .._reduce.reductions import sum as total
from .._index.searching import searchsorted

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None) -> Array:
    """How often each of 0, 1, 2, ... occurs, or the sum of the `weights` of its occurrences.

    Args:
      x: integers with one axis; negative ones count as 0.
      minlength: shortest result.
      length: length of the result, needed where `x` is traced; larger numbers are not counted.

    >>> bincount(asarray([1, 1, 3]))
    Array([0, 2, 0, 1], dtype=int32)
    """
    x = asarray(x)
    t = typeof(x)
    if not dtypes.is_integer(t.dtype) and t.dtype != dtypes.BOOL or len(t.shape) != 1:
        raise TypeError(f"bincount: expected integers with one axis; got {t.long()}")
    if length is None:
        if isinstance(x, Tracer):
            raise ConcretizationError("bincount: the length of the result depends on traced values; give length=")
        known = np.asarray(x)
        length = max(int(minlength), int(known.max()) + 1 if known.size else 0)
    if weights is not None and typeof(weights).shape != t.shape:
        raise ValueError(f"bincount: weights must have the shape of x {t.shape}; got {typeof(weights).shape}")
    return _bincount(x, weights, max(length, minlength))


@core("length", name="bincount")
def _bincount(x: Any, weights: Any, length: int) -> Any:
    if typeof(x).dtype == dtypes.BOOL:
        x = cast(x, np.dtype("int32"))
    value = literal(1, dtypes.canonical_int()) if weights is None else weights
    x = lax.max(x, literal(0, typeof(x).dtype))
    start = zeros((length,), typeof(value).dtype)
    return start.at[x].add(value, mode="drop")


# --- histograms -----------------------------------------------------------------------------------------------------


def histogram_bin_edges(a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None) -> Array:
    """The edges that `histogram` would use: `bins` equal ones over `range`, or `bins` itself when it is an array."""
    del weights
    if isinstance(bins, str):
        raise NotImplementedError("histogram_bin_edges: named rules are not supported; give a number or edges")
    bins = asarray(bins) if isinstance(bins, (list, tuple)) else bins
    a = ravel(asarray(a))
    d = dtypes.inexact_for(typeof(a).dtype)
    if typeof(bins).shape:
        return cast(bins, d)
    if range is None:
        n = typeof(a).shape[0]
        lo, hi = (lowest(a), highest(a)) if n else (literal(0, d), literal(1, d))
    else:
        lo, hi = range
    lo, hi = cast(asarray(lo), d), cast(asarray(hi), d)
    same = lax.eq(lo, hi)
    half = literal(0.5, d)
    lo, hi = choose_by(same, lax.sub(lo, half), lo), choose_by(same, lax.add(hi, half), hi)
    return linspace(lo, hi, int(bins) + 1, dtype=d)


def histogram(a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None,
              density: bool | None = None) -> tuple[Array, Array]:
    """(counts, edges): how many elements, or how much weight, lies in each bin; the last one has both edges."""
    a = ravel(asarray(a))
    edges = histogram_bin_edges(a, bins, range)
    d = typeof(edges).dtype
    a = cast(a, d)
    counts = _counts([a], [edges], None if weights is None else ravel(asarray(weights)), d)
    if density:
        counts = true_divide(counts, total(counts)) / _gaps(edges)
    return counts, edges


def _gaps(edges: Any) -> Any:
    return edges[1:] - edges[:-1]


def _counts(columns: list[Any], edges: list[Any], weights: Any, d: np.dtype) -> Any:
    """Weights per cell of a grid of bins, flat samples given per axis; numbers of samples, as floats, where there are none:
    counted as integers, in at least float32, since half precision counts no further than 256 or 2048."""
    flat: Any = None
    inside: Any = None
    shape = tuple(typeof(e).shape[0] - 1 for e in edges)
    for x, e, n in zip(columns, edges, shape):
        at = searchsorted(e, x, side="right")
        at = choose_by(lax.eq(x, e[-1]), literal(n, typeof(at).dtype), at) - 1
        good = lax.bitwise_and(at >= 0, at < n)
        flat = at if flat is None else flat * n + at
        inside = good if inside is None else lax.bitwise_and(inside, good)
    total = int(np.prod(shape))
    flat = choose_by(inside, flat, literal(total, typeof(flat).dtype))
    counts = reshape(_bincount(flat, weights, total), shape)
    return counts if weights is not None else cast(counts, d if d.itemsize >= 4 else np.dtype("float32"))


def histogramdd(sample: Any, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None,
                density: bool | None = None) -> tuple[Array, list[Array]]:
    """(counts, list of edges) of samples in several dimensions: rows of `sample`, or a list of coordinates."""
    if isinstance(sample, (list, tuple)):
        columns = [ravel(asarray(s)) for s in sample]
    else:
        sample = asarray(sample)
        columns = [sample[:, i] for i in builtins.range(typeof(sample).shape[1])] if len(typeof(sample).shape) == 2 \
            else [sample]
    n = len(columns)
    many = isinstance(bins, (list, tuple))
    if many and len(bins) != n:
        raise ValueError(f"histogramdd: {n} dimensions need as many bins; got {len(bins)}")
    if range is not None and len(range) != n:
        raise ValueError(f"histogramdd: {n} dimensions need as many ranges; got {len(range)}")
    edges = [histogram_bin_edges(x, bins[i] if many else bins, None if range is None else range[i])
             for i, x in enumerate(columns)]
    columns = [cast(x, typeof(e).dtype) for x, e in zip(columns, edges)]
    counts = _counts(columns, edges, None if weights is None else ravel(asarray(weights)), typeof(edges[0]).dtype)
    if density:
        counts = counts / total(counts)
        for i, e in enumerate(edges):
            counts = counts / reshape(_gaps(e), tuple(-1 if j == i else 1 for j in builtins.range(n)))
    return counts, edges


def histogram2d(x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None,
                density: bool | None = None) -> tuple[Array, Array, Array]:
    """(counts, edges of x, edges of y) of points in a plane."""
    if not isinstance(bins, (int, np.integer)) and not (isinstance(bins, (list, tuple)) and len(bins) == 2):
        bins = [bins, bins]
    counts, edges = histogramdd([x, y], bins, range, weights, density)
    return counts, edges[0], edges[1]
