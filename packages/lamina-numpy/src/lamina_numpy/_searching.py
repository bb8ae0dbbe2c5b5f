"""Finding: positions of true elements, places in sorted arrays, counts per value, histograms."""
from __future__ import annotations

import builtins
from typing import Any

import numpy as np
from lamina_ir import dtypes, prims
from lamina_tracing.extend import Tracer, bind, typeof

from ._conversion import asarray, put
from ._creation import ones, ones_like, zeros
from ._logic import less, less_equal, truth
from ._promotion import aval, broadcast, cast, fixed, literal, promote_all
from ._publish import compiled, plain_or_compiled, public
from ._selection import choose_by
from ._shape import ravel, reshape

__all__ = ["argwhere", "bincount", "digitize", "flatnonzero", "histogram", "histogram2d", "histogram_bin_edges",
           "histogramdd", "nonzero", "searchsorted"]


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """Indices of the elements that are not zero, one array per axis.

    Args:
      a: array of at least one axis. Its values decide the length of the result, so a traced one needs `size`.
      size: length of the result; what does not fit is left out.
      fill_value: what fills up; zeros unless given. One number, or one per axis.

    >>> nonzero(asarray([5, 0, 7]))
    (Array([0, 2], dtype=int32),)
    """
    if isinstance(a, (list, tuple)):
        a = asarray(a)
    shape = aval("nonzero", a).shape
    if not shape:
        raise ValueError("nonzero: expected at least one axis; use atleast_1d first")
    if size is None:
        if isinstance(a, Tracer):
            from lamina_ir.errors import ConcretizationError
            raise ConcretizationError(f"nonzero: the number of true elements of a traced {a.aval.long()} is not known; "
                                      "give size=, or use the three-argument where")
        d = dtypes.canonical_int()
        return tuple(put(i, d) for i in np.nonzero(np.asarray(a)))
    if size < 0:
        raise ValueError(f"nonzero: size must not be negative; got {size}")
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value,) * len(shape)
    fills = tuple(0 if f is None else f for f in fills)
    return plain_or_compiled(_nonzero, a)(a, tuple(fills), size=size)


@public("size")
def _nonzero(a: Any, fills: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    from ._grids import unravel_index
    from ._running import cumsum
    from ._reductions import sum as total
    shape = typeof(a).shape
    d = dtypes.canonical_int()
    mask = cast(ravel(truth("nonzero", a)), d)
    n = typeof(mask).shape[0]
    if n == 0 or size == 0:
        return tuple(broadcast(cast(f, d), (), (size,)) for f in fills)
    # the k-th true element stands where the running count first exceeds k
    count = cumsum(mask)
    order = bind(prims.iota_p, dtype=d, shape=(size,), dimension=0)
    at = searchsorted(count, order, side="right")
    good = bind(prims.lt_p, order, total(mask))
    return tuple(choose_by(good, i, cast(f, d)) for i, f in zip(unravel_index(at, shape), fills))


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Flat positions of the elements that are not zero."""
    return nonzero(ravel(asarray(a)), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Indices of the elements that are not zero, as rows."""
    from ._joins import stack
    from ._shape import atleast_1d
    a = asarray(a)
    rank = len(typeof(a).shape)
    found = nonzero(atleast_1d(a), size=size, fill_value=fill_value)
    if rank == 0:
        n = typeof(found[0]).shape[0]
        return put(np.zeros((n, 0), np.int32))
    return stack(found, axis=1)


@public("side", "method")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> Any:
    """Where each element of `v` belongs in the sorted `a`: before equal elements ("left") or after ("right").

    Method: bisection, `ceil(log2(n + 1))` rounds of one gather each; "compare_all" compares with every element.
    """
    from ._taking import take
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right'; got {side!r}")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(f"searchsorted: unknown method {method!r}; use 'scan' or 'compare_all'")
    a, v = (asarray(x) if isinstance(x, (list, tuple)) else x for x in (a, v))
    if len(aval("searchsorted", a).shape) != 1:
        raise ValueError(f"searchsorted: the sorted array must have one axis; got {typeof(a).long()}")
    if sorter is not None:
        a = take(a, sorter)
    a, v = promote_all("searchsorted", [a, v])
    n, shape = typeof(a).shape[0], typeof(v).shape
    d = dtypes.canonical_int()
    if n == 0:
        return bind(prims.broadcast_in_dim_p, fixed(0, d), shape=shape, broadcast_dimensions=())
    if method == "compare_all":
        wide = bind(prims.broadcast_in_dim_p, a, shape=(*shape, n), broadcast_dimensions=(len(shape),))
        other = bind(prims.broadcast_in_dim_p, v, shape=(*shape, n), broadcast_dimensions=tuple(range(len(shape))))
        before = _before(wide, other, side)
        return bind(prims.reduce_sum_p, cast(before, d), axes=(len(shape),))
    lo = bind(prims.broadcast_in_dim_p, fixed(0, d), shape=shape, broadcast_dimensions=())
    hi = bind(prims.broadcast_in_dim_p, fixed(n, d), shape=shape, broadcast_dimensions=())
    one = literal(1, d)
    for _ in builtins.range(n.bit_length()):
        mid = bind(prims.shift_right_logical_p, bind(prims.add_p, lo, hi), one)
        go = bind(prims.and_p, _before(take(a, mid, 0, mode="clip"), v, side), bind(prims.lt_p, lo, hi))
        lo, hi = choose_by(go, bind(prims.add_p, mid, one), lo), choose_by(go, hi, mid)
    return lo


def _before(x: Any, v: Any, side: str) -> Any:
    """Whether x stands before the place of v; NaN sorts last."""
    if side == "left":
        out = less(x, v)
        if dtypes.is_float(typeof(x).dtype):
            out = bind(prims.or_p, out, bind(prims.and_p, bind(prims.eq_p, x, x), bind(prims.ne_p, v, v)))
    else:
        out = less_equal(x, v)
        if dtypes.is_float(typeof(x).dtype):
            out = bind(prims.or_p, out, bind(prims.ne_p, v, v))
    return out


@public("right", "method")
def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Any:
    """The bin of each element: `i` with `bins[i-1] <= x < bins[i]` (`<`, `<=` when `right`); bins may descend."""
    bins = asarray(bins) if isinstance(bins, (list, tuple)) else bins
    shape = aval("digitize", bins, 1).shape
    if len(shape) != 1:
        raise ValueError(f"digitize: bins must have one axis; got {typeof(bins).long()}")
    n = shape[0]
    if n == 0:
        return bind(prims.broadcast_in_dim_p, fixed(0, dtypes.canonical_int()), shape=aval("digitize", x).shape,
                    broadcast_dimensions=())
    side = "left" if right else "right"
    up = searchsorted(bins, x, side=side, method=method or "scan")
    down = searchsorted(bind(prims.rev_p, bins, dimensions=(0,)), x, side=side, method=method or "scan")
    rising = less_equal(bins[0], bins[-1])
    return choose_by(rising, up, bind(prims.sub_p, literal(n, typeof(down).dtype), down))


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
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
            from lamina_ir.errors import ConcretizationError
            raise ConcretizationError("bincount: the length of the result depends on traced values; give length=")
        known = np.asarray(x)
        length = max(int(minlength), int(known.max()) + 1 if known.size else 0)
    if weights is not None and typeof(weights).shape != t.shape:
        raise ValueError(f"bincount: weights must have the shape of x {t.shape}; got {typeof(weights).shape}")
    traced = isinstance(x, Tracer) or isinstance(weights, Tracer)
    return (_bincount if traced else compiled(_bincount))(x, weights, length=max(length, minlength))


@public("length")
def _bincount(x: Any, weights: Any, length: int) -> Any:
    if typeof(x).dtype == dtypes.BOOL:
        x = cast(x, np.dtype("int32"))
    value = literal(1, dtypes.canonical_int()) if weights is None else weights
    x = bind(prims.max_p, x, literal(0, typeof(x).dtype))
    start = zeros((length,), typeof(value).dtype)
    return start.at[x].add(value, mode="drop")


# --- histograms -----------------------------------------------------------------------------------------------------


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges that `histogram` would use: `bins` equal ones over `range`, or `bins` itself when it is an array."""
    from ._ranges import linspace
    from ._reductions import max as highest
    from ._reductions import min as lowest
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
    same = bind(prims.eq_p, lo, hi)
    half = literal(0.5, d)
    lo, hi = choose_by(same, bind(prims.sub_p, lo, half), lo), choose_by(same, bind(prims.add_p, hi, half), hi)
    return linspace(lo, hi, int(bins) + 1, dtype=d)


def histogram(a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None) -> Any:
    """(counts, edges): how many elements, or how much weight, lies in each bin; the last one has both edges."""
    from ._reductions import sum as total
    from ._ufuncs import true_divide
    a = ravel(asarray(a))
    edges = histogram_bin_edges(a, bins, range)
    d = typeof(edges).dtype
    a = cast(a, d)
    weights = cast(ones_like(a), d) if weights is None else ravel(asarray(weights))
    counts = _counts([a], [edges], weights)
    if density:
        counts = true_divide(counts, total(counts)) / _gaps(edges)
    return counts, edges


def _gaps(edges: Any) -> Any:
    return edges[1:] - edges[:-1]


def _counts(columns: list[Any], edges: list[Any], weights: Any) -> Any:
    """Weights per cell of a grid of bins, flat samples given per axis."""
    flat: Any = None
    inside: Any = None
    shape = tuple(typeof(e).shape[0] - 1 for e in edges)
    for x, e, n in zip(columns, edges, shape):
        at = searchsorted(e, x, side="right")
        at = choose_by(bind(prims.eq_p, x, e[-1]), literal(n, typeof(at).dtype), at) - 1
        good = bind(prims.and_p, at >= 0, at < n)
        flat = at if flat is None else flat * n + at
        inside = good if inside is None else bind(prims.and_p, inside, good)
    total = int(np.prod(shape))
    flat = choose_by(inside, flat, literal(total, typeof(flat).dtype))
    return reshape(_bincount(flat, weights, total), shape)


def histogramdd(sample: Any, bins: Any = 10, range: Any = None, weights: Any = None,
                density: bool | None = None) -> Any:
    """(counts, list of edges) of samples in several dimensions: rows of `sample`, or a list of coordinates."""
    from ._reductions import sum as total
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
    weights = ones(typeof(columns[0]).shape, typeof(edges[0]).dtype) if weights is None else ravel(asarray(weights))
    counts = _counts(columns, edges, weights)
    if density:
        counts = counts / total(counts)
        for i, e in enumerate(edges):
            counts = counts / reshape(_gaps(e), tuple(-1 if j == i else 1 for j in builtins.range(n)))
    return counts, edges


def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None,
                density: bool | None = None) -> Any:
    """(counts, edges of x, edges of y) of points in a plane."""
    if not isinstance(bins, (int, np.integer)) and not (isinstance(bins, (list, tuple)) and len(bins) == 2):
        bins = [bins, bins]
    counts, edges = histogramdd([x, y], bins, range, weights, density)
    return counts, edges[0], edges[1]

