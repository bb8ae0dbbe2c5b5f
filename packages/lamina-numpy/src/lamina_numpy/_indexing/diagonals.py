"""Triangles and diagonals of matrices, and the indices of either."""
from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, lax
from lamina_tracing.extend import as_int, check_no_axis_name, typeof

from .._core.promotion import aval, cast, check_cast, literal
from .._core.public_api import public_api
from .._core.select import choose_by
from .._core.conversion import asarray, put
from .._shape.layout import moveaxis, ravel
from .._shape.tiling import tile_core
from .._creation.creation import arange, ones
from .._reductions.reductions import sum as total
from .take import take
from .positions import nonzero

__all__ = ["diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "fill_diagonal", "mask_indices",
           "trace", "tril", "tril_indices", "tril_indices_from", "triu", "triu_indices", "triu_indices_from"]

_I32 = np.dtype("int32")


def _take_triangle(call: str, m: Any, k: int, lower: bool) -> Any:
    t = aval(call, m)
    if len(t.shape) < 2:
        raise ShapeError(f"{call}: expected at least two axes; got {t.str_long()}")
    k = as_int(call, "k", k)
    row = lax.broadcasted_iota(_I32, t.shape[-2:], 0)
    column = lax.broadcasted_iota(_I32, t.shape[-2:], 1)
    row = lax.add(row, literal(k if lower else k - 1, _I32)) if (k if lower else k - 1) else row
    mask = lax.ge(row, column)
    zero = lax.full((), 0, t.dtype) if dtypes.is_key(t.dtype) else literal(0, t.dtype)
    return choose_by(mask, m, zero) if lower else choose_by(mask, zero, m)


class Triangle(Protocol):
    """The type of `tril` and `triu`."""

    def __call__(self, m: ArrayLike, k: int = 0) -> Array: ...


def _make_triangle_function(name: str, lower: bool, says: str, example: str) -> Triangle:
    def op(m: ArrayLike, k: int = 0) -> Array:
        return _take_triangle(name, m, k, lower)
    doc = f"""{says}

    Args:
      m: array `[..., p, q]` of any dtype.
      k: which diagonal: 0 for the main one, positive above it, negative below.
    Returns:
      Array of the shape, dtype and units of `m`.
    Raises:
      ShapeError: `m` has fewer than two axes.
      TypeError: `m` is neither an array nor a number.

    Derivative: linear; the transpose is the same selection.
    Source: meaning of `numpy.{name}`.

    {example}
    """
    return public_api("k", name=name, doc=doc)(op)


tril = _make_triangle_function("tril", True, "The elements on and below a diagonal; zeros above.",
                               ">>> tril(np.array([[1, 2], [3, 4]]))\n    Array([[1, 0],\n           [3, 4]], dtype=int32)")
triu = _make_triangle_function("triu", False, "The elements on and above a diagonal; zeros below.",
                               ">>> triu(np.array([[1, 2], [3, 4]]), k=1)\n"
                               "    Array([[0, 2],\n           [0, 0]], dtype=int32)")


@public_api("offset", "axis1", "axis2")
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of two axes, as a new last axis.

    Args:
      a: array of at least two axes, of any dtype.
      offset: which diagonal: 0 the main one, positive ones to its right along `axis2`, negative ones below.
      axis1, axis2: rows and columns; negative ones count from the end.
    Returns:
      Array `[..., n]` of the other axes and the `n` elements of the diagonal (none if it is outside), with the
      dtype and units of `a`.
    Raises:
      ShapeError: `a` has fewer than two axes, not these, or they are the same.
      TypeError: `a` is neither an array nor a number.

    Derivative: linear; the transpose puts the elements back; the others are zero.
    Source: meaning of `numpy.diagonal`.

    >>> diagonal(np.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    >>> diagonal(np.ones((2, 3, 4)), axis1=1, axis2=2).shape
    (2, 3)
    """
    sizes = aval("diagonal", a).shape
    if len(sizes) < 2:
        raise ShapeError(f"diagonal: expected at least two axes; got {typeof(a).str_long()}")
    offset = as_int("diagonal", "offset", offset)
    check_no_axis_name("diagonal", "axis1", axis1)
    check_no_axis_name("diagonal", "axis2", axis2)
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    *lead, n, m = typeof(a).shape
    start = max(0, -offset) * m + max(0, offset)
    count = max(0, min(n + min(offset, 0), m - max(offset, 0)))
    flat = lax.reshape(a, (*lead, n * m))
    if count == 0:
        return take(flat, np.zeros((0,), np.int32), axis=-1)
    # elements of a diagonal are m + 1 apart in memory: one strided slice
    starts = (0,) * len(lead) + (start,)
    stops = (*lead, start + (count - 1) * (m + 1) + 1)
    return lax.slice(flat, starts, stops, (1,) * len(lead) + (m + 1,))


@public_api("offset", "axis1", "axis2", "dtype", "out")
def trace(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None,
          out: None = None) -> Array:
    """The sum of the diagonal of two axes.

    Args:
      a: number or boolean array of at least two axes.
      offset: which diagonal: 0 the main one, positive ones to its right along `axis2`, negative ones below.
      axis1, axis2: rows and columns; negative ones count from the end.
      dtype: element type to sum in, and of the result; None for that of `a`, integers and booleans narrower than the
        default integer widened to it.
      out: not supported, must be None: arrays never change.
    Returns:
      Array of the other axes, in the units of `a`; 0 if the diagonal is outside.
    Raises:
      ShapeError: `a` has fewer than two axes, not these, or they are the same.
      TypeError: `a` is neither an array nor a number.
      NotImplementedError: `out` is given.

    Derivative: linear; the transpose puts the number on the diagonal.
    Source: meaning of `numpy.trace`.

    >>> trace(np.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    check_no_axis_name("trace", "axis1", axis1)
    check_no_axis_name("trace", "axis2", axis2)
    return total(diagonal(a, offset, axis1, axis2), -1, dtype, out)


@public_api("k")
def diag(v: ArrayLike, k: int = 0) -> Array:
    """The diagonal of a matrix, or the matrix with this diagonal.

    Args:
      v: array `[n, m]` to take the diagonal of, or `[n]` to put on one; of any dtype.
      k: which diagonal: 0 the main one, positive ones above it, negative ones below.
    Returns:
      Array of one axis, or a square matrix `[n + abs(k), n + abs(k)]` with zeros elsewhere; dtype and units of `v`.
    Raises:
      ValueError: `v` has neither one axis nor two.
      TypeError: `v` is neither an array nor a number.

    Derivative: linear; the transposes of the two are each other.
    Source: meaning of `numpy.diag`.

    >>> diag(np.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    >>> diag(np.array([1, 2]), k=1)
    Array([[0, 1, 0],
           [0, 0, 2],
           [0, 0, 0]], dtype=int32)
    """
    t = aval("diag", v)
    if len(t.shape) == 2:
        return diagonal(v, k)
    if len(t.shape) != 1:
        raise ValueError(f"diag: expected one or two axes; got {t.str_long()}")
    k = as_int("diag", "k", k)
    n = t.shape[0] + abs(k)
    zero = literal(0, t.dtype)
    padded = lax.pad(v, zero, ((max(0, k), max(0, -k), 0),)) if k else v
    rows = lax.broadcast_in_dim(padded, (n, n), (1,))
    row = lax.broadcasted_iota(_I32, (n, n), 0)
    column = lax.broadcasted_iota(_I32, (n, n), 1)
    row = lax.add(row, literal(k, _I32)) if k else row
    return choose_by(lax.eq(row, column), rows, zero)


@public_api("k")
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix with all elements of an array on a diagonal.

    Args:
      v: array or number of `n` elements, taken in flat order.
      k: which diagonal: 0 the main one, positive ones above it, negative ones below.
    Returns:
      Array `[n + abs(k), n + abs(k)]` with zeros elsewhere; dtype and units of `v`.
    Raises:
      TypeError: `v` is neither an array nor a number.

    Derivative: linear; the transpose takes the diagonal.
    Source: meaning of `numpy.diagflat`.

    >>> diagflat(np.array([[1, 2]]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    return diag(ravel(v), k)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """A copy of an array with other values on its main diagonal.

    Args:
      a: array `[n, m]`, or of more axes of one length.
      val: a number, or values in order, begun again where they are too few; they become elements of the dtype of `a`.
      wrap: not supported, must be False.
      inplace: must be False: arrays never change.
    Returns:
      Array of the shape, dtype and units of `a`.
    Raises:
      ValueError: `inplace` is True, `val` is empty, or `a` has one axis or several of different lengths.
      NotImplementedError: `wrap` is True.
      TypeError: `a` or `val` holds what is no number.

    Source: meaning of `numpy.fill_diagonal`, which changes `a`.

    >>> fill_diagonal(np.zeros((2, 2)), 5, inplace=False)
    Array([[5., 0.],
           [0., 5.]], dtype=float32)
    """
    if inplace:
        raise ValueError("fill_diagonal: arrays are immutable; pass inplace=False and use the result")
    a = asarray(a)
    if wrap:
        raise NotImplementedError("fill_diagonal: wrap=True is not supported; fill the blocks one by one")
    shape = typeof(a).shape
    if len(shape) < 2 or len(shape) > 2 and len(set(shape)) > 1:
        raise ValueError(f"fill_diagonal: expected two axes, or more of equal length; got {typeof(a).str_long()}")
    val = asarray(val)
    check_cast("fill_diagonal", a, val)
    val = ravel(cast(val, typeof(a).dtype))
    count = typeof(val).shape[0]
    if not count:
        raise ValueError("fill_diagonal: val must not be empty")
    val = tile_core(val, (-(-shape[0] // count),))[:shape[0]]  # rows below the diagonal's end are not chosen
    rows = lax.broadcast_in_dim(val, shape, (0,))
    on = None
    for axis in range(1, len(shape)):
        same = lax.eq(lax.broadcasted_iota(_I32, shape, 0), lax.broadcasted_iota(_I32, shape, axis))
        on = same if on is None else lax.bitwise_and(on, same)
    return choose_by(on, rows, a)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array with axes of one length.

    Args:
      n: the length of the axes.
      ndim: how many axes there are.
    Returns:
      Tuple of `ndim` arrays `[n]` of the default integer dtype, to index with.
    Raises:
      ValueError: `n` or `ndim` is negative.
      TypeError: `n` or `ndim` is no integer.

    Source: meaning of `numpy.diag_indices`.

    >>> diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    n, ndim = as_int("diag_indices", "n", n), as_int("diag_indices", "ndim", ndim)
    if n < 0 or ndim < 0:
        raise ValueError(f"diag_indices: n and ndim must not be negative; got {n}, {ndim}")
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array.

    Args:
      arr: array of two or more axes of one length `n`; only its shape counts.
    Returns:
      Tuple of one array `[n]` per axis, of the default integer dtype, to index with.
    Raises:
      ValueError: `arr` has fewer than two axes, or axes of different lengths.
      TypeError: `arr` is neither an array nor a number.

    Source: meaning of `numpy.diag_indices_from`.

    >>> diag_indices_from(np.ones((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    shape = aval("diag_indices_from", arr).shape
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ValueError(f"diag_indices_from: expected axes of one length, at least two; got {typeof(arr).str_long()}")
    return diag_indices(shape[0], len(shape))


def _to_index_pair(found: Any) -> tuple[Any, Any]:
    i, j = found
    d = dtypes.canonical_int()
    return put(i, d), put(j, d)


def _check_sizes(call: str, n: Any, k: Any, m: Any) -> tuple[int, int, int | None]:
    return as_int(call, "n", n), as_int(call, "k", k), None if m is None else as_int(call, "m", m)


class TriangleIndices(Protocol):
    """The type of `tril_indices` and `triu_indices`."""

    def __call__(self, n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]: ...


def _make_triangle_indices(name: str, triangle: str, example: str) -> TriangleIndices:
    host = getattr(np, name)

    def indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
        return _to_index_pair(host(*_check_sizes(name, n, k, m)))
    indices.__name__ = indices.__qualname__ = name
    indices.__doc__ = f"""The indices of the {triangle} triangle of a matrix.

    Args:
      n: number of rows.
      k: which diagonal: 0 for the main one, positive above it, negative below.
      m: number of columns; None for `n`.
    Returns:
      Pair of arrays of one axis and the default integer dtype, rows and columns in order, to index with.
    Raises:
      TypeError: a size is neither an integer nor a float.

    Source: meaning of `numpy.{name}`.

    {example}
    """
    return indices


tril_indices = _make_triangle_indices("tril_indices", "lower", ">>> tril_indices(2)\n    "
                                      "(Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))")
triu_indices = _make_triangle_indices("triu_indices", "upper", ">>> triu_indices(2, k=1)\n    "
                                      "(Array([0], dtype=int32), Array([1], dtype=int32))")


class TriangleIndicesFrom(Protocol):
    """The type of `tril_indices_from` and `triu_indices_from`."""

    def __call__(self, arr: ArrayLike, k: int = 0) -> tuple[Array, Array]: ...


def _make_triangle_indices_from(name: str, triangle: str, of: TriangleIndices, example: str) -> TriangleIndicesFrom:
    def indices(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
        shape = aval(name, arr).shape
        if len(shape) != 2:
            raise ValueError(f"{name}: expected two axes; got {typeof(arr).str_long()}")
        return of(shape[0], k, shape[1])
    indices.__name__ = indices.__qualname__ = name
    indices.__doc__ = f"""The indices of the {triangle} triangle of a given matrix.

    Args:
      arr: array `[n, m]`; only its shape is used.
      k: which diagonal: 0 for the main one, positive above it, negative below.
    Returns:
      Pair of arrays of one axis and the default integer dtype, rows and columns in order, to index with.
    Raises:
      ValueError: `arr` does not have two axes.
      TypeError: `arr` is neither an array nor a number.

    Source: meaning of `numpy.{name}`.

    {example}
    """
    return indices


tril_indices_from = _make_triangle_indices_from("tril_indices_from", "lower", tril_indices,
                                                ">>> tril_indices_from(np.ones((2, 2)))\n    "
                                                "(Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))")
triu_indices_from = _make_triangle_indices_from("triu_indices_from", "upper", triu_indices,
                                                ">>> triu_indices_from(np.ones((2, 2)), k=1)\n    "
                                                "(Array([0], dtype=int32), Array([1], dtype=int32))")


def mask_indices(n: int, mask_func: Any, k: int = 0, *, size: int | None = None) -> tuple[Array, Array]:
    """The indices of the elements of a matrix that a function keeps.

    Args:
      n: number of rows and of columns.
      mask_func: function of a matrix and `k` that puts zeros where nothing is kept, such as `triu`.
      k: handed to `mask_func`.
      size: length of the result, cut or filled up with zeros to it; None for as many as there are.
    Returns:
      Pair of arrays of one axis and the default integer dtype, rows and columns, to index with.
    Raises:
      ValueError: `n` or `size` is negative.
      TypeError: `mask_func` is no function.

    Source: meaning of `numpy.mask_indices`.

    >>> mask_indices(2, np.tril)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    k = as_int("mask_indices", "k", k)
    rows, columns = nonzero(mask_func(ones((n, n)), k), size=size)
    return rows, columns
