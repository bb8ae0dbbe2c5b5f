"""Counts per value and per bin."""
from __future__ import annotations

import builtins
import operator
from typing import Any

import numpy as np
from lamina_ir import ConcretizationError, ShapeError, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import as_int, Tracer, typeof

from .._core.promotion import cast, literal, work_dtype
from .._core.public_api import jitted_core
from .._core.select import choose_by
from .._core.conversion import asarray
from .._elementwise.ufuncs import true_divide
from .._shape.layout import ravel, reshape
from .._creation.creation import zeros
from .._creation.ranges import linspace
from .._reductions.reductions import max as highest
from .._reductions.reductions import min as lowest
from .._reductions.reductions import sum as total
from .._indexing.searching import searchsorted

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]

_MOST_COMPARED = 1 << 12  # samples times bins, up to which one loop over both serves better than a search and a scatter


def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None) -> Array:
    """How often each of 0, 1, 2, ... occurs, or the sum of the weights of its occurrences.

    Args:
      x: integer or boolean array `[n]`; negative ones count as 0.
      weights: number array `[n]`; None for 1 each.
      minlength: shortest result.
      length: length of the result, unless `minlength` is more, needed where `x` is traced; larger numbers are not
        counted. None for the largest number and one.
    Returns:
      Array of the dtype of `weights`, or the default integer, and of the units of `weights`.
    Raises:
      TypeError: `x` does not hold integers or has not one axis.
      ValueError: `weights` has another shape.
      ConcretizationError: `x` is traced and `length` is None.

    Derivative: linear in `weights`.
    Source: meaning of `numpy.bincount`, which raises for negative numbers.

    >>> bincount(asarray([1, 1, 3]))
    Array([0, 2, 0, 1], dtype=int32)
    """
    x = asarray(x)
    t = typeof(x)
    if not dtypes.is_integer(t.dtype) and t.dtype != dtypes.BOOL or len(t.shape) != 1:
        raise TypeError(f"bincount: expected integers with one axis; got {t.str_long()}")
    minlength = as_int("bincount", "minlength", minlength)
    if length is None:
        if isinstance(x, Tracer):
            raise ConcretizationError("bincount: the length of the result depends on traced values; give length=")
        known = np.asarray(x)
        length = max(minlength, int(known.max()) + 1 if known.size else 0)
    if weights is not None and typeof(weights).shape != t.shape:
        raise ValueError(f"bincount: weights must have the shape of x {t.shape}; got {typeof(weights).shape}")
    return _bincount(x, weights, max(as_int("bincount", "length", length), minlength))


@jitted_core("length", name="bincount")
def _bincount(x: Any, weights: Any, length: int) -> Any:
    if typeof(x).dtype == dtypes.BOOL:
        x = cast(x, np.dtype("int32"))
    value = literal(1, dtypes.canonical_int()) if weights is None else weights
    x = lax.max(x, literal(0, typeof(x).dtype))
    d = typeof(value).dtype
    start = zeros((length,), work_dtype(d))  # long sums in half precision stop growing
    return cast(start.at[x].add(cast(value, work_dtype(d)), mode="drop"), d)


# --- histograms -----------------------------------------------------------------------------------------------------


def histogram_bin_edges(a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None) -> Array:
    """The edges of the bins that `histogram` would use.

    Args:
      a: real array, taken as flat.
      bins: a number of equal bins, at least 1, or their edges `[bins + 1]`, ascending.
      range: `(lowest, highest)` edge, may be traced; None for the extremes of the elements. Without meaning where
        `bins` are edges.
      weights: of no effect.
    Returns:
      Float array `[bins + 1]`, in the dtype of `a` if that is float, in its units. Where both ends are equal they
      are moved apart by 1; 0 and 1 for no elements.
    Raises:
      ValueError: `bins` is below 1, or has more than one axis, or the ends of `range` are in the wrong order.
      TypeError: `bins` is a fraction, or `a` is neither an array nor a number.
      NotImplementedError: `bins` is the name of a rule.
      ConcretizationError: a traced number of bins.

    Source: meaning of `numpy.histogram_bin_edges`, without its rules.

    >>> histogram_bin_edges(np.array([1., 2., 5.]), 2)
    Array([1., 3., 5.], dtype=float32)
    """
    del weights
    if isinstance(bins, str):
        raise NotImplementedError("histogram_bin_edges: named rules are not supported; give a number or edges")
    bins = asarray(bins) if isinstance(bins, (list, tuple, np.ndarray)) else bins
    a = ravel(asarray(a))
    d = dtypes.inexact_dtype_for(typeof(a).dtype)
    t = typeof(bins)
    if len(t.shape) == 1:
        return cast(bins, d)
    count = operator.index(bins) if not t.shape else 0
    if count < 1:
        raise ValueError(f"histogram_bin_edges: bins must be a positive number or edges with one axis; got "
                         f"{t.str_long() if t.shape else count}")
    if range is None:
        n = typeof(a).shape[0]
        lo, hi = (lowest(a), highest(a)) if n else (literal(0, d), literal(1, d))
    else:
        lo, hi = range
        if isinstance(lo, (int, float)) and isinstance(hi, (int, float)) and lo > hi:
            raise ValueError(f"histogram_bin_edges: range must be (lowest, highest); got {range}")
    lo, hi = cast(asarray(lo), d), cast(asarray(hi), d)
    same = lax.eq(lo, hi)
    # Equal ends are moved apart, so that there is a bin to be in. They may be traced: a choice, not an `if`.
    half = literal(0.5, d)
    lo, hi = choose_by(same, lax.sub(lo, half), lo), choose_by(same, lax.add(hi, half), hi)
    return linspace(lo, hi, count + 1, dtype=d)


def histogram(a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None,
              density: bool | None = None) -> tuple[Array, Array]:
    """Count elements, or sum weights, in each bin.

    Args:
      a: real array, taken as flat; NaN and what is outside of the bins is not counted.
      bins: a number of equal bins, at least 1, or their edges `[bins + 1]`, ascending; each holds its lower edge,
        the last one both.
      range: `(lowest, highest)` edge, may be traced; None for the extremes of the elements. Without meaning where
        `bins` are edges.
      weights: number array of as many elements; None for 1 each.
      density: give shares per unit of `a`, whose integral is 1, instead of counts.
    Returns:
      `(counts, edges)`: an array `[bins]`, in the dtype of `weights`; without them numbers as floats, in float32 at
      least; divided by a sum where `density`, NaN if that is 0; and what `histogram_bin_edges` gives.
    Raises:
      ValueError: `bins` is below 1, or has more than one axis, or the ends of `range` are in the wrong order.
      ShapeError: `weights` has another number of elements.
      TypeError: `bins` is a fraction, or an argument is neither an array nor a number.
      NotImplementedError: `bins` is the name of a rule.

    Source: meaning of `numpy.histogram`, which counts in integers.

    >>> histogram(np.array([1., 2., 2., 5.]), 2)
    (Array([3., 1.], dtype=float32), Array([1., 3., 5.], dtype=float32))
    """
    a = ravel(asarray(a))
    edges = histogram_bin_edges(a, bins, range)
    d = typeof(edges).dtype
    a = cast(a, d)
    counts = _count_cells("histogram", [a], [edges], weights, d)
    if density:
        counts = true_divide(counts, total(counts)) / _compute_widths(edges)
    return counts, edges


def _compute_widths(edges: Any) -> Any:
    return edges[1:] - edges[:-1]


def _count_by_comparison(x: Any, edges: Any) -> Any:
    """Count the elements of x in each bin; each is compared with all edges. The last bin is closed on both sides."""
    bins = typeof(edges).shape[0] - 1
    shape = (bins, typeof(x).shape[0])
    low, high = (lax.broadcast_in_dim(e, shape, (0,)) for e in (edges[:-1], edges[1:]))
    x = lax.broadcast_in_dim(x, shape, (1,))
    closed = lax.eq(lax.broadcasted_iota(np.int32, shape, 0), np.int32(bins - 1))
    below = lax.bitwise_or(lax.lt(x, high), lax.bitwise_and(closed, lax.eq(x, high)))
    return lax.reduce_sum(cast(lax.bitwise_and(lax.le(low, x), below), dtypes.canonical_int()), (1,))


def _count_cells(call: str, columns: list[Any], edges: list[Any], weights: Any, d: np.dtype) -> Any:
    """Return the sum of weights per cell of a grid of bins; the flat samples are given per axis.

    Without weights return the number of samples as floats. They are counted as integers, in at least float32, since
    half precision counts no further than 256 or 2048."""
    weights = None if weights is None else ravel(asarray(weights))
    sizes = [typeof(x).shape[0] for x in (*columns, *(() if weights is None else (weights,)))]
    if len(set(sizes)) > 1:
        raise ShapeError(f"{call}: coordinates{'' if weights is None else ' and weights'} must have one length; got "
                         + ", ".join(map(str, sizes)))
    flat: Any = None
    inside: Any = None
    shape = tuple(typeof(e).shape[0] - 1 for e in edges)
    of_counts = d if d.itemsize >= 4 else np.dtype("float32")
    if weights is None and len(shape) == 1 and 0 < sizes[0] * shape[0] <= _MOST_COMPARED:
        return cast(_count_by_comparison(columns[0], edges[0]), of_counts)
    for x, e, n in zip(columns, edges, shape):
        at = searchsorted(e, x, side="right")
        # The last bin is closed on both sides. Samples outside all bins go to a place behind the last, where they are dropped.
        at = choose_by(lax.eq(x, e[-1]), literal(n, typeof(at).dtype), at) - 1
        good = lax.bitwise_and(at >= 0, at < n)
        flat = at if flat is None else flat * n + at
        inside = good if inside is None else lax.bitwise_and(inside, good)
    total = int(np.prod(shape))
    flat = choose_by(inside, flat, literal(total, typeof(flat).dtype))
    counts = reshape(_bincount(flat, weights, total), shape)
    return counts if weights is not None else cast(counts, of_counts)


def histogramdd(sample: Any, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None,
                density: bool | None = None) -> tuple[Array, list[Array]]:
    """Count samples, or sum weights, in each cell of a grid of bins.

    Args:
      sample: real array `[n, d]`, or `[n]` for d = 1; or a list of d arrays of coordinates, taken as flat.
      bins: a number of equal bins, at least 1, or their edges `[bins + 1]`, ascending, for all dimensions, or a
        list of d such; as in `histogram`.
      range: a list of d pairs, or None, each as in `histogram`; None for the extremes of the coordinates.
      weights: number array of n elements; None for 1 each.
      density: give shares per unit of volume, whose integral is 1, instead of counts.
    Returns:
      `(counts, edges)`: an array of d axes, and a list of d arrays of edges. The counts have the dtype of `weights`;
      without weights they are floats, float32 at least. With `density` they are divided by a sum, and NaN if that is
      0.
    Raises:
      ValueError: `sample` has more than two axes, or the lengths of `bins` or `range` are not d.
      ValueError: `bins` is below 1, or has more than one axis, or the ends of `range` are in the wrong order.
      ShapeError: coordinates or `weights` have another number of elements.
      TypeError: `bins` is a fraction, or an argument is neither an array nor a number.
      NotImplementedError: `bins` is the name of a rule.

    Source: meaning of `numpy.histogramdd`, where one array is a list of coordinates only as `[n, d]`.

    >>> histogramdd([np.array([1., 2., 3.]), np.array([1., 1., 2.])], 2)[0]
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _compute_histogram("histogramdd", sample, bins, range, weights, density)


def _compute_histogram(call: str, sample: Any, bins: Any, range: Any, weights: Any, density: Any) -> tuple[Array,
                                                                                                           list[Array]]:
    if isinstance(sample, (list, tuple)):
        columns = [ravel(asarray(s)) for s in sample]
    else:
        sample = asarray(sample)
        if len(typeof(sample).shape) not in (1, 2):
            raise ValueError(f"{call}: expected samples [n] or [n, dimensions]; got {typeof(sample).str_long()}")
        columns = [sample[:, i] for i in builtins.range(typeof(sample).shape[1])] if len(typeof(sample).shape) == 2 \
            else [sample]
    n = len(columns)
    many = isinstance(bins, (list, tuple))
    if many and len(bins) != n:
        raise ValueError(f"{call}: bins must have an entry for each of {n} dimensions; got {len(bins)}")
    if range is not None and len(range) != n:
        raise ValueError(f"{call}: range must have an entry for each of {n} dimensions; got {len(range)}")
    edges = [histogram_bin_edges(x, bins[i] if many else bins, None if range is None else range[i])
             for i, x in enumerate(columns)]
    columns = [cast(x, typeof(e).dtype) for x, e in zip(columns, edges)]
    counts = _count_cells(call, columns, edges, weights, typeof(edges[0]).dtype)
    if density:
        counts = counts / total(counts)
        for i, e in enumerate(edges):
            counts = counts / reshape(_compute_widths(e), tuple(-1 if j == i else 1 for j in builtins.range(n)))
    return counts, edges


def histogram2d(x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None,
                density: bool | None = None) -> tuple[Array, Array, Array]:
    """Count points of a plane, or sum weights, in each cell of a grid of bins.

    Args:
      x, y: real arrays of as many elements, taken as flat.
      bins: a number of equal bins, at least 1, or their edges `[bins + 1]`, ascending, for both axes, or a list of
        two such; an array of two integers gives the number for each.
      range: two pairs, or None, each as in `histogram`; None for the extremes of the coordinates.
      weights: number array of as many elements; None for 1 each.
      density: give shares per unit of area, whose integral is 1, instead of counts.
    Returns:
      `(counts, edges of x, edges of y)`: counts `[bins of x, bins of y]`, in the dtype of `weights`; without them
      numbers as floats, in float32 at least; divided by a sum where `density`, NaN if that is 0.
    Raises:
      ValueError: `bins` is below 1, or has more than one axis, or the ends of `range` are in the wrong order.
      ShapeError: coordinates or `weights` have different numbers of elements.
      TypeError: `bins` is a fraction, or an argument is neither an array nor a number.
      NotImplementedError: `bins` is the name of a rule.

    Source: meaning of `numpy.histogram2d`.

    >>> histogram2d(np.array([1., 2., 3.]), np.array([1., 1., 2.]), 2)[0]
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    if not isinstance(bins, (list, tuple)) and typeof(bins).shape == (2,):
        bins = [bins[0], bins[1]]
    elif not isinstance(bins, (int, np.integer)) and not (isinstance(bins, (list, tuple)) and len(bins) == 2):
        bins = [bins, bins]
    counts, edges = _compute_histogram("histogram2d", [x, y], bins, range, weights, density)
    return counts, edges[0], edges[1]
