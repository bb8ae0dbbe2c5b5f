"""Index arrays, meshes, triangles and diagonals."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes, prims
from lamina_ir.errors import ShapeError
from lamina_tracing.extend import bind, typeof

from ._creation import arange, as_shape, asarray, put
from ._promotion import aval, cast, literal
from ._publish import public, public_lists
from ._selection import choose_by
from ._shape import moveaxis, ravel

__all__ = ["c_", "diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "fill_diagonal", "index_exp",
           "indices", "ix_", "mask_indices", "meshgrid", "mgrid", "ogrid", "r_", "ravel_multi_index", "s_", "trace",
           "tril", "tril_indices", "tril_indices_from", "triu", "triu_indices", "triu_indices_from", "unravel_index",
           "vander"]

_I32 = np.dtype("int32")
s_ = np.s_
index_exp = np.index_exp


def indices(dimensions: Any, dtype: Any = None, sparse: bool = False) -> Any:
    """Index arrays of a grid: stacked along a new first axis, or one open array per axis when `sparse`."""
    shape = as_shape("indices", dimensions)
    d = dtypes.canonical_int() if dtype is None else dtypes.canonical(dtype)
    n = len(shape)
    out = []
    for i, size in enumerate(shape):
        full = tuple(size if j == i else 1 for j in range(n)) if sparse else shape
        out.append(bind(prims.broadcast_in_dim_p, arange(size, dtype=d), shape=full, broadcast_dimensions=(i,)))
    if sparse:
        return tuple(out)
    from ._joins import stack
    return stack(out) if out else asarray(np.zeros((0,), d))


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Any]:
    """Coordinate arrays of a grid from its axes.

    Args:
      xi: one-dimensional coordinates.
      sparse: leave axes of length 1 to be broadcast.
      indexing: "xy" (the second axis varies with the first argument) or "ij".
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij'; got {indexing!r}")
    if not copy:
        raise ValueError("meshgrid: arrays are immutable, so copy=False has no meaning")
    xs = [asarray(x) for x in xi]
    if any(len(typeof(x).shape) > 1 for x in xs):
        raise ValueError("meshgrid: coordinates must have one axis")
    xs = [ravel(x) for x in xs]
    order = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        order[0], order[1] = 1, 0
    sizes = [typeof(x).shape[0] for x in xs]
    shape = [0] * len(xs)
    for i, at in enumerate(order):
        shape[at] = sizes[i]
    out = []
    for i, (x, at) in enumerate(zip(xs, order)):
        full = tuple(sizes[i] if j == at else 1 for j in range(len(xs))) if sparse else tuple(shape)
        out.append(bind(prims.broadcast_in_dim_p, x, shape=full, broadcast_dimensions=(at,)))
    return out


class _Grid:
    """`mgrid[0:3, 0:1:5j]` and its open form."""

    def __init__(self, name: str, sparse: bool) -> None:
        self.name = name
        self.sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        made = np.ogrid[key]
        parts = [made] if isinstance(made, np.ndarray) else list(made)
        kind = dtypes.canonical(np.result_type(*parts))
        if isinstance(made, np.ndarray):
            return put(made, kind)
        if self.sparse:
            return [put(p, kind) for p in parts]
        return put(np.stack(np.broadcast_arrays(*parts)), kind)

    def __repr__(self) -> str:
        return f"<{self.name}>"


mgrid, ogrid = _Grid("mgrid", False), _Grid("ogrid", True)


class _Join:
    """`r_[...]` and `c_[...]`: pieces written as slices, numbers and arrays, joined along an axis."""

    def __init__(self, name: str, axis: int, ndmin: int, place: int) -> None:
        self.name, self.axis, self.ndmin, self.place = name, axis, ndmin, place

    def __getitem__(self, key: Any) -> Any:
        from ._joins import concatenate
        parts = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, place = self.axis, self.ndmin, self.place
        if parts and isinstance(parts[0], str):
            numbers = [int(s) for s in parts.pop(0).split(",")]
            axis = numbers[0]
            ndmin = numbers[1] if len(numbers) > 1 else ndmin
            place = numbers[2] if len(numbers) > 2 else place
        out = []
        for part in parts:
            scalar = not isinstance(part, slice) and np.ndim(part) == 0
            if isinstance(part, slice):
                x = put(np.r_[part])
            else:
                x = asarray(part)
            have = len(typeof(x).shape) if not scalar else 0
            short = ndmin - have
            if scalar:
                x = bind(prims.reshape_p, x, new_sizes=(1,) * max(ndmin, 1), dimensions=None)
            elif short > 0:
                front = place if place >= 0 else short + place + 1
                front = min(max(front, 0), short)
                sizes = typeof(x).shape
                x = bind(prims.reshape_p, x, new_sizes=(1,) * front + sizes + (1,) * (short - front),
                         dimensions=None) if place != -1 or self.name == "r_" else bind(
                    prims.reshape_p, x, new_sizes=sizes + (1,) * short, dimensions=None)
                if self.name == "r_" and place == -1:
                    x = bind(prims.reshape_p, x, new_sizes=(1,) * short + sizes, dimensions=None)
            out.append(x)
        return concatenate(out, axis)


r_ = _Join("r_", 0, 1, -1)
c_ = _Join("c_", -1, 2, 0)


def ix_(*args: Any) -> tuple[Any, ...]:
    """Index arrays whose product picks the grid of the given rows, columns, ..."""
    from ._searching import nonzero
    out = []
    for i, a in enumerate(args):
        a = asarray(a, dtype=_I32) if isinstance(a, (list, tuple)) and not len(a) else asarray(a)
        if len(typeof(a).shape) != 1:
            raise ValueError(f"ix_: arguments must have one axis; got {typeof(a).long()}")
        if typeof(a).dtype == dtypes.BOOL:
            (a,) = nonzero(a)
        n = typeof(a).shape[0]
        shape = tuple(n if j == i else 1 for j in range(len(args)))
        out.append(bind(prims.reshape_p, a, new_sizes=shape, dimensions=None) if len(args) > 1 else a)
    return tuple(out)


# --- triangles and diagonals ----------------------------------------------------------------------------------------


def _triangle(call: str, m: Any, k: int, lower: bool) -> Any:
    t = aval(call, m)
    if len(t.shape) < 2:
        raise ShapeError(f"{call}: expected at least two axes; got {t.long()}")
    row = bind(prims.iota_p, dtype=_I32, shape=t.shape[-2:], dimension=0)
    column = bind(prims.iota_p, dtype=_I32, shape=t.shape[-2:], dimension=1)
    row = bind(prims.add_p, row, literal(k if lower else k - 1, _I32)) if (k if lower else k - 1) else row
    mask = bind(prims.ge_p, row, column)
    zero = literal(0, t.dtype)
    return choose_by(mask, m, zero) if lower else choose_by(mask, zero, m)


@public("k")
def tril(m: Any, k: int = 0) -> Any:
    """The elements on and below the `k`-th diagonal; zeros above."""
    return _triangle("tril", m, k, True)


@public("k")
def triu(m: Any, k: int = 0) -> Any:
    """The elements on and above the `k`-th diagonal; zeros below."""
    return _triangle("triu", m, k, False)


@public("offset", "axis1", "axis2")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of two axes, as a new last axis."""
    from ._taking import take
    sizes = aval("diagonal", a).shape
    if len(sizes) < 2:
        raise ShapeError(f"diagonal: expected at least two axes; got {typeof(a).long()}")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    *lead, n, m = typeof(a).shape
    start = max(0, -offset) * m + max(0, offset)
    count = max(0, min(n + min(offset, 0), m - max(offset, 0)))
    flat = bind(prims.reshape_p, a, new_sizes=(*lead, n * m), dimensions=None)
    if count == 0:
        return take(flat, np.zeros((0,), np.int32), axis=-1)
    # elements of a diagonal lie m + 1 apart in memory: one strided slice
    starts = (0,) * len(lead) + (start,)
    stops = (*lead, start + (count - 1) * (m + 1) + 1)
    return bind(prims.slice_p, flat, start_indices=starts, limit_indices=stops,
                strides=(1,) * len(lead) + (m + 1,))


@public("offset", "axis1", "axis2", "dtype", "out")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Any:
    """Sum of the diagonal of two axes."""
    from ._reductions import sum as total
    return total(diagonal(a, offset, axis1, axis2), -1, dtype, out)


@public("k")
def diag(v: Any, k: int = 0) -> Any:
    """The `k`-th diagonal of a matrix, or the matrix with this diagonal."""
    t = aval("diag", v)
    if len(t.shape) == 2:
        return diagonal(v, k)
    if len(t.shape) != 1:
        raise ValueError(f"diag: expected one or two axes; got {t.long()}")
    n = t.shape[0] + abs(k)
    zero = literal(0, t.dtype)
    padded = bind(prims.pad_p, v, zero, padding_config=((max(0, k), max(0, -k), 0),)) if k else v
    rows = bind(prims.broadcast_in_dim_p, padded, shape=(n, n), broadcast_dimensions=(1,))
    row = bind(prims.iota_p, dtype=_I32, shape=(n, n), dimension=0)
    column = bind(prims.iota_p, dtype=_I32, shape=(n, n), dimension=1)
    row = bind(prims.add_p, row, literal(k, _I32)) if k else row
    return choose_by(bind(prims.eq_p, row, column), rows, zero)


@public("k")
def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix with the elements of `v` on its `k`-th diagonal."""
    return diag(ravel(v), k)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """A copy of `a` with `val` on its main diagonal."""
    from ._joins import _tile
    if inplace:
        raise ValueError("fill_diagonal: arrays are immutable; pass inplace=False and use the result")
    a = asarray(a)
    if wrap:
        raise NotImplementedError("fill_diagonal: wrap=True is not supported; fill the blocks one by one")
    shape = typeof(a).shape
    if len(shape) < 2 or len(shape) > 2 and len(set(shape)) > 1:
        raise ValueError(f"fill_diagonal: expected two axes, or more of equal length; got {typeof(a).long()}")
    n = min(shape)
    val = ravel(cast(asarray(val), typeof(a).dtype))
    count = typeof(val).shape[0]
    val = _tile(val, (-(-n // count),))[:n]
    if len(shape) == 2:
        config = ((0, max(shape) - n, 0),)
        val = bind(prims.pad_p, val, literal(0, typeof(a).dtype), padding_config=config)[:shape[0]]
    rows = bind(prims.broadcast_in_dim_p, val, shape=shape, broadcast_dimensions=(0,))
    on = None
    for axis in range(1, len(shape)):
        same = bind(prims.eq_p, bind(prims.iota_p, dtype=_I32, shape=shape, dimension=0),
                    bind(prims.iota_p, dtype=_I32, shape=shape, dimension=axis))
        on = same if on is None else bind(prims.and_p, on, same)
    return choose_by(on, rows, a)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Indices of the main diagonal of an n × n × ... array."""
    if n < 0 or ndim < 0:
        raise ValueError(f"diag_indices: n and ndim must not be negative; got {n}, {ndim}")
    return (arange(n),) * ndim


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """Indices of the main diagonal of `arr`."""
    shape = aval("diag_indices_from", arr).shape
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ValueError(f"diag_indices_from: expected axes of one length, at least two; got {typeof(arr).long()}")
    return diag_indices(shape[0], len(shape))


def _pairs(found: Any) -> tuple[Any, Any]:
    i, j = found
    d = dtypes.canonical_int()
    return put(i, d), put(j, d)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Indices of the lower triangle of an n × m matrix."""
    return _pairs(np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Indices of the upper triangle of an n × m matrix."""
    return _pairs(np.triu_indices(n, k, m))


def _matrix(call: str, arr: Any) -> tuple[int, int]:
    shape = aval(call, arr).shape
    if len(shape) != 2:
        raise ValueError(f"{call}: expected two axes; got {typeof(arr).long()}")
    return shape


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """Indices of the lower triangle of `arr`."""
    n, m = _matrix("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """Indices of the upper triangle of `arr`."""
    n, m = _matrix("triu_indices_from", arr)
    return triu_indices(n, k, m)


def mask_indices(n: int, mask_func: Any, k: int = 0, *, size: int | None = None) -> tuple[Any, Any]:
    """Indices where a mask function such as `triu` keeps elements of an n × n matrix."""
    from ._creation import ones
    from ._searching import nonzero
    return nonzero(mask_func(ones((n, n)), k), size=size)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of `x` as columns, highest first unless `increasing`."""
    from ._ufuncs import power
    x = asarray(x)
    t = typeof(x)
    if len(t.shape) != 1:
        raise ValueError(f"vander: expected one axis; got {t.long()}")
    n = t.shape[0] if N is None else N
    if n < 0:
        raise ValueError(f"vander: N must not be negative; got {n}")
    powers = np.arange(n) if increasing else np.arange(n)[::-1]
    return power(bind(prims.broadcast_in_dim_p, x, shape=(t.shape[0], n), broadcast_dimensions=(0,)),
                 asarray(powers.astype(np.int32)))


@public_lists("shape")
def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Index per axis of flat positions; positions outside are clipped, negative ones count from the end."""
    from ._ufuncs import clip, floor_divide, remainder
    sizes = as_shape("unravel_index", shape)
    total = int(np.prod(sizes, dtype=np.int64))
    if not dtypes.is_integer(aval("unravel_index", indices).dtype):
        raise TypeError(f"unravel_index: positions must be integers; got {typeof(indices).long()}")
    at = clip(indices, -total, max(total - 1, 0))
    at = choose_by(bind(prims.lt_p, at, literal(0, typeof(at).dtype)), at + total, at)
    out = []
    for size in reversed(sizes):
        out.append(remainder(at, size))
        at = floor_divide(at, size)
    return tuple(reversed(out))


def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Any:
    """Flat positions of indices per axis; `mode` says what happens outside: "raise" (concrete only), "wrap", "clip"."""
    from ._ufuncs import clip, remainder
    sizes = as_shape("ravel_multi_index", dims)
    parts = [asarray(i) for i in multi_index]
    if len(parts) != len(sizes):
        raise ValueError(f"ravel_multi_index: {len(sizes)} axes need as many indices; got {len(parts)}")
    fixed = []
    for i, (part, size) in enumerate(zip(parts, sizes)):
        if not dtypes.is_integer(typeof(part).dtype):
            raise TypeError(f"ravel_multi_index: indices must be integers; got {typeof(part).long()} for axis {i}")
        if mode == "raise":
            known = np.asarray(part)
            if ((known < 0) | (known >= size)).any():
                raise ValueError(f"ravel_multi_index: an index of axis {i} is outside [0, {size}); use mode 'wrap' or "
                                 "'clip'")
        elif mode == "wrap":
            part = remainder(part, size)
        elif mode == "clip":
            part = clip(part, 0, size - 1)
        else:
            raise ValueError(f"ravel_multi_index: mode must be 'raise', 'wrap' or 'clip'; got {mode!r}")
        fixed.append(part)
    pairs = list(zip(fixed, sizes))
    if order == "F":
        pairs.reverse()
    elif order != "C":
        raise ValueError(f"ravel_multi_index: order must be 'C' or 'F'; got {order!r}")
    out: Any = 0
    for part, size in pairs:
        out = part + out * size
    return out


