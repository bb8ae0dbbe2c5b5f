"""Triangles and diagonals of matrices, and the indices of either."""
from __future__ import annotations

import operator
from typing import Any

import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, lax
from lamina_tracing.extend import typeof

from .._ground.promotion import aval, cast, literal
from .._ground.publishing import public
from .._ground.choosing import choose_by
from .._ground.conversion import asarray, put
from .._shape.layout import moveaxis, ravel
from .._shape.tiling import tiled
from .._make.creation import arange, ones
from .._reduce.reductions import sum as total
from .taking import take
from .positions import nonzero

__all__ = ["diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "fill_diagonal", "mask_indices",
           "trace", "tril", "tril_indices", "tril_indices_from", "triu", "triu_indices", "triu_indices_from"]

_I32 = np.dtype("int32")


def _triangle(call: str, m: Any, k: int, lower: bool) -> Any:
    t = aval(call, m)
    if len(t.shape) < 2:
        raise ShapeError(f"{call}: expected at least two axes; got {t.long()}")
    row = lax.broadcasted_iota(_I32, t.shape[-2:], 0)
    column = lax.broadcasted_iota(_I32, t.shape[-2:], 1)
    row = lax.add(row, literal(k if lower else k - 1, _I32)) if (k if lower else k - 1) else row
    mask = lax.ge(row, column)
    zero = literal(0, t.dtype)
    return choose_by(mask, m, zero) if lower else choose_by(mask, zero, m)


@public("k")
def tril(m: ArrayLike, k: int = 0) -> Array:
    """The elements on and below the `k`-th diagonal; zeros above."""
    return _triangle("tril", m, k, True)


@public("k")
def triu(m: ArrayLike, k: int = 0) -> Array:
    """The elements on and above the `k`-th diagonal; zeros below."""
    return _triangle("triu", m, k, False)


@public("offset", "axis1", "axis2")
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of two axes, as a new last axis."""
    sizes = aval("diagonal", a).shape
    if len(sizes) < 2:
        raise ShapeError(f"diagonal: expected at least two axes; got {typeof(a).long()}")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    *lead, n, m = typeof(a).shape
    start = max(0, -offset) * m + max(0, offset)
    count = max(0, min(n + min(offset, 0), m - max(offset, 0)))
    flat = lax.reshape(a, (*lead, n * m))
    if count == 0:
        return take(flat, np.zeros((0,), np.int32), axis=-1)
    # elements of a diagonal lie m + 1 apart in memory: one strided slice
    starts = (0,) * len(lead) + (start,)
    stops = (*lead, start + (count - 1) * (m + 1) + 1)
    return lax.slice(flat, starts, stops, (1,) * len(lead) + (m + 1,))


@public("offset", "axis1", "axis2", "dtype", "out")
def trace(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None,
          out: None = None) -> Array:
    """Sum of the diagonal of two axes."""
    return total(diagonal(a, offset, axis1, axis2), -1, dtype, out)


@public("k")
def diag(v: ArrayLike, k: int = 0) -> Array:
    """The `k`-th diagonal of a matrix, or the matrix with this diagonal."""
    t = aval("diag", v)
    if len(t.shape) == 2:
        return diagonal(v, k)
    if len(t.shape) != 1:
        raise ValueError(f"diag: expected one or two axes; got {t.long()}")
    n = t.shape[0] + abs(k)
    zero = literal(0, t.dtype)
    padded = lax.pad(v, zero, ((max(0, k), max(0, -k), 0),)) if k else v
    rows = lax.broadcast_in_dim(padded, (n, n), (1,))
    row = lax.broadcasted_iota(_I32, (n, n), 0)
    column = lax.broadcasted_iota(_I32, (n, n), 1)
    row = lax.add(row, literal(k, _I32)) if k else row
    return choose_by(lax.eq(row, column), rows, zero)


@public("k")
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix with the elements of `v` on its `k`-th diagonal."""
    return diag(ravel(v), k)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """A copy of `a` with `val` on its main diagonal."""
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
    if not count:
        raise ValueError("fill_diagonal: val holds no elements")
    val = tiled(val, (-(-n // count),))[:n]
    if len(shape) == 2:
        config = ((0, max(shape) - n, 0),)
        val = lax.pad(val, literal(0, typeof(a).dtype), config)[:shape[0]]
    rows = lax.broadcast_in_dim(val, shape, (0,))
    on = None
    for axis in range(1, len(shape)):
        same = lax.eq(lax.broadcasted_iota(_I32, shape, 0), lax.broadcasted_iota(_I32, shape, axis))
        on = same if on is None else lax.bitwise_and(on, same)
    return choose_by(on, rows, a)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Indices of the main diagonal of an n × n × ... array."""
    n, ndim = operator.index(n), operator.index(ndim)
    if n < 0 or ndim < 0:
        raise ValueError(f"diag_indices: n and ndim must not be negative; got {n}, {ndim}")
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Indices of the main diagonal of `arr`."""
    shape = aval("diag_indices_from", arr).shape
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ValueError(f"diag_indices_from: expected axes of one length, at least two; got {typeof(arr).long()}")
    return diag_indices(shape[0], len(shape))


def _pairs(found: Any) -> tuple[Any, Any]:
    i, j = found
    d = dtypes.canonical_int()
    return put(i, d), put(j, d)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Indices of the lower triangle of an n × m matrix."""
    return _pairs(np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Indices of the upper triangle of an n × m matrix."""
    return _pairs(np.triu_indices(n, k, m))


def _matrix(call: str, arr: Any) -> tuple[int, int]:
    shape = aval(call, arr).shape
    if len(shape) != 2:
        raise ValueError(f"{call}: expected two axes; got {typeof(arr).long()}")
    return shape


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Indices of the lower triangle of `arr`."""
    n, m = _matrix("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Indices of the upper triangle of `arr`."""
    n, m = _matrix("triu_indices_from", arr)
    return triu_indices(n, k, m)


def mask_indices(n: int, mask_func: Any, k: int = 0, *, size: int | None = None) -> tuple[Array, Array]:
    """Indices where a mask function such as `triu` keeps elements of an n × n matrix."""
    return nonzero(mask_func(ones((n, n)), k), size=size)
