"""BCSR arrays, and the matrices COO, CSR and CSC: conversions from and to BCOO, and the functions of their names."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_tracing import Array, ArrayLike, DTypeLike, lax
from lamina_tracing.extend import typeof

from ._bcoo import BCOO_ENTRIES, bcoo_extract, bcoo_fromdense, bcoo_sort_indices, bcoo_sum_duplicates, bcoo_todense
from ._entries import batch_shape, expand, scatter_rows
from ._products import bcoo_dot_general
from ._shape import bcoo_broadcast_in_dim, bcoo_concatenate
from ._types import BCOO, BCSR, COO, CSC, CSR, JAXSparse, check_bcoo

__all__ = ["bcsr_broadcast_in_dim", "bcsr_concatenate", "bcsr_dot_general", "bcsr_extract", "bcsr_from_bcoo",
           "bcsr_fromdense", "bcsr_sum_duplicates", "bcsr_to_bcoo", "bcsr_todense", "coo_fromdense", "coo_matmat",
           "coo_matvec", "coo_todense", "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense", "matrix_from_bcoo"]


def _check(call: str, mat: Any, kind: type[JAXSparse], name: str = "mat") -> Any:
    if not isinstance(mat, kind):
        raise TypeError(f"{call}: {name} must be a {kind.__name__}; got {type(mat).__name__}. Use "
                        f"{kind.__name__}.fromdense")
    return mat


def bcsr_to_bcoo(mat: BCSR) -> BCOO:
    """Convert a BCSR to a BCOO; row `shape[n_batch]` marks padding."""
    batch, nse, dtype = mat.shape[:mat.n_batch], mat.nse, typeof(mat.indices).dtype
    rows = math.prod(batch)
    ends = lnp.astype(lnp.reshape(mat.indptr[..., 1:], (rows, -1)), dtype)
    which = lnp.broadcast_to(lax.iota(dtype, rows)[:, None], ends.shape)
    # the row of an entry is the number of rows that end at it or before
    counts = scatter_rows((rows, nse), lnp.stack([which, ends], -1).reshape(-1, 2), lnp.ones(math.prod(ends.shape), dtype))
    row = lnp.reshape(lnp.cumsum(counts, 1, dtype=dtype), (*batch, nse))
    return BCOO((mat.data, lnp.stack([row, mat.indices], -1)), shape=mat.shape, indices_sorted=mat.indices_sorted,
                unique_indices=mat.unique_indices)


def bcsr_from_bcoo(arr: BCOO) -> BCSR:
    """Convert a BCOO with two sparse dimensions to a BCSR."""
    mat = check_bcoo("BCSR.from_bcoo", "arr", arr)
    if mat.n_sparse != 2:
        raise NotImplementedError(f"BCSR.from_bcoo: arr must have 2 sparse dimensions; got {mat.n_sparse}. Use "
                                  f"update_layout")
    batch = batch_shape(mat)
    mat = bcoo_sort_indices(mat)
    data, indices = expand(mat.data, batch), expand(mat.indices, batch)
    n, rows, dtype = mat.shape[mat.n_batch], math.prod(batch), typeof(indices).dtype
    row = lnp.reshape(indices[..., 0], (rows, mat.nse))
    which = lnp.broadcast_to(lax.iota(dtype, rows)[:, None], row.shape)
    counts = scatter_rows((rows, n), lnp.stack([which, row], -1).reshape(-1, 2), lnp.ones(rows * mat.nse, dtype))
    indptr = lnp.pad(lnp.cumsum(counts, 1, dtype=dtype), ((0, 0), (1, 0)))
    return BCSR((data, indices[..., 1], lnp.reshape(indptr, (*batch, n + 1))), shape=mat.shape, indices_sorted=True,
                unique_indices=mat.unique_indices)


def matrix_from_bcoo(cls: type[Any], mat: BCOO) -> Any:
    """Convert a BCOO matrix without batch and dense dimensions to COO, CSR or CSC."""
    if mat.ndim != 2 or mat.n_sparse != 2:
        raise ValueError(f"{cls.__name__}: expected a matrix; got the shape {mat.shape}")
    if cls is COO:
        return COO((mat.data, mat.indices[:, 0], mat.indices[:, 1]), shape=mat.shape, rows_sorted=mat.indices_sorted)
    if cls is CSC:
        return matrix_from_bcoo(CSR, mat.transpose()).transpose()
    rows = bcsr_from_bcoo(mat)
    return cls((rows.data, rows.indices, rows.indptr), shape=mat.shape)


@fill_docstring(BCOO_ENTRIES)
def bcsr_todense(mat: BCSR) -> Array:
    """Return the dense array of a BCSR.

    Args:
      mat: a BCSR array.
    Returns:
      An array of the shape and the dtype of `mat`.
    Raises: {TypeError}

    Source: JAX's function of this name.

    >>> bcsr_todense(bcsr_fromdense(np.array([[0, 3]])))
    Array([[0, 3]], dtype=int32)
    """
    return bcoo_todense(bcsr_to_bcoo(_check("bcsr_todense", mat, BCSR)))


@fill_docstring(BCOO_ENTRIES)
def bcsr_fromdense(mat: ArrayLike, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0,
                   index_dtype: DTypeLike = np.int32) -> BCSR:
    """Convert a dense array to a BCSR that stores its nonzero elements.

    Args:
      mat: a dense array with `n_batch + 2 + n_dense` dimensions.
      {nse, n_batch, n_dense, index_dtype}
    Returns:
      A BCSR array.
    Raises:
      TypeError: an argument has another type.
      ValueError: `nse` is too small, or not given under `jit`; or there are not 2 sparse dimensions.

    Source: JAX's function of this name.

    >>> bcsr_fromdense(np.array([[0, 3], [0, 0]])).indptr
    Array([0, 1, 1], dtype=int32)
    """
    ndim = lnp.asarray(mat).ndim if not isinstance(mat, JAXSparse) else 0
    if ndim - n_batch - n_dense != 2 and not isinstance(mat, JAXSparse):
        raise ValueError(f"bcsr_fromdense: mat must have 2 sparse dimensions; got {ndim} dimensions with "
                         f"n_batch={n_batch} and "
                         f"n_dense={n_dense}")
    return bcsr_from_bcoo(bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype))


@fill_docstring(BCOO_ENTRIES)
def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Add the entries of the same index.

    Args:
      mat: a BCSR array.
      {nse}
    Returns:
      A BCSR array with unique indices.
    Raises:
      TypeError: an argument has another type.
      ValueError: `nse` is too small, or not given under `jit`.

    Source: JAX's function of this name.

    >>> bcsr_sum_duplicates(bcsr_fromdense(np.eye(2)))
    BCSR(float32[2, 2], nse=2)
    """
    return bcsr_from_bcoo(bcoo_sum_duplicates(bcsr_to_bcoo(_check("bcsr_sum_duplicates", mat, BCSR)), nse))


@fill_docstring(BCOO_ENTRIES)
def bcsr_extract(indices: ArrayLike, indptr: ArrayLike, mat: ArrayLike) -> Array:
    """Return the elements of a dense array at the indices of a BCSR.

    Args:
      indices, indptr: indices as in a `BCSR`, without batch dimensions.
      mat: a dense array of at least 2 dimensions.
    Returns:
      The elements `[nse, *dense]`.
    Raises:
      TypeError: an argument has another type.
      ValueError: the shapes do not fit.

    Source: JAX's function of this name.

    >>> bcsr_extract(np.array([1]), np.array([0, 1, 1]), np.array([[5, 6], [7, 8]]))
    Array([6], dtype=int32)
    """
    x, columns = lnp.asarray(mat), lnp.asarray(indices)
    data = lnp.zeros((*columns.shape, *x.shape[columns.ndim + 1:]), x.dtype)
    return bcoo_extract(bcsr_to_bcoo(BCSR((data, columns, indptr), shape=x.shape)), x, assume_unique=True).data


@fill_docstring(BCOO_ENTRIES)
def bcsr_dot_general(lhs: BCSR | ArrayLike, rhs: BCSR | ArrayLike, *, dimension_numbers: Any, precision: Any = None,
                     preferred_element_type: DTypeLike | None = None) -> Any:
    """Contract a BCSR array with a dense or a sparse one.

    Args:
      lhs, rhs: BCSR or dense arrays; at least one is a BCSR.
      dimension_numbers, precision, preferred_element_type: as in `bcoo_dot_general`.
    Returns:
      A dense array; a BCOO if both operands are sparse.
    Raises:
      TypeError: an argument has another type.
      ShapeError: the sizes differ.

    Source: JAX's function of this name.

    >>> bcsr_dot_general(bcsr_fromdense(np.eye(2)), np.array([1, 2]), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([1., 2.], dtype=float32)
    """
    left: Any = lhs.to_bcoo() if isinstance(lhs, JAXSparse) else lhs
    right: Any = rhs.to_bcoo() if isinstance(rhs, JAXSparse) else rhs
    return bcoo_dot_general(left, right, dimension_numbers=dimension_numbers, precision=precision,
                            preferred_element_type=preferred_element_type)


@fill_docstring(BCOO_ENTRIES)
def bcsr_broadcast_in_dim(mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> BCSR:
    """Add batch or dense dimensions, and repeat elements along dimensions of size 1.

    Args:
      mat: a BCSR array.
      shape: the new shape.
      broadcast_dimensions: for each dimension of `mat`, its dimension in the result, increasing.
    Returns:
      A BCSR array.
    Raises:
      TypeError: an argument has another type.
      ValueError: the shapes do not fit.
      NotImplementedError: the result has not 2 sparse dimensions.

    Source: JAX's function of this name.

    >>> bcsr_broadcast_in_dim(bcsr_fromdense(np.eye(2)), shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCSR(float32[3, 2, 2], nse=2, n_batch=1)
    """
    mat = _check("bcsr_broadcast_in_dim", mat, BCSR)
    return bcsr_from_bcoo(bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions))


@fill_docstring(BCOO_ENTRIES)
def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Join arrays along a batch or sparse dimension.

    Args: {operands, dimension}
    Returns:
      A BCSR array.
    Raises:
      {TypeError, ValueError}
      NotImplementedError: the dimension is dense, or the numbers of batch or dense dimensions differ.

    Source: JAX's function of this name.

    >>> x = bcsr_fromdense(np.array([[0, 3]]))
    >>> bcsr_concatenate([x, x], dimension=0).todense()
    Array([[0, 3],
           [0, 3]], dtype=int32)
    """
    mats = [_check("bcsr_concatenate", mat, BCSR, "operands").to_bcoo() for mat in operands]
    return bcsr_from_bcoo(bcoo_concatenate(mats, dimension=dimension))


# --- matrices -----------------------------------------------------------------------------------------------------
_MATRIX_ENTRIES = docstring_entries("""
    mat: a matrix of the class in the name of the function.
    nse: number of stored elements; None counts them.
    index_dtype: dtype of the indices.
    v: a dense vector.
    B: a dense matrix.
    transpose: whether to use the transpose of `mat`.
    TypeError: an argument has another type.
    """)


def _multiply(call: str, mat: JAXSparse, x: ArrayLike, ndim: int, transpose: bool) -> Any:
    b = lnp.asarray(x)
    if b.ndim != ndim:
        raise ValueError(f"{call}: the dense operand must have {ndim} dimensions; got the shape {tuple(b.shape)}")
    axis = 0 if transpose else 1
    return bcoo_dot_general(mat.to_bcoo(), b, dimension_numbers=(((axis,), (0,)), ((), ())))


@fill_docstring(_MATRIX_ENTRIES)
def coo_fromdense(mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> COO:
    """Convert a dense matrix to a COO that stores its nonzero elements.

    Args:
      mat: a dense matrix.
      {nse, index_dtype}
    Returns:
      A COO matrix.
    Raises:
      ValueError: `mat` is not a matrix, or `nse` is too small, or not given under `jit`.

    Source: JAX's function of this name.

    >>> coo_fromdense(np.array([[0, 3], [4, 0]])).col
    Array([1, 0], dtype=int32)
    """
    return COO.fromdense(mat, nse=nse, index_dtype=index_dtype)


@fill_docstring(_MATRIX_ENTRIES)
def coo_todense(mat: COO) -> Array:
    """Return the dense matrix of a COO.

    Args: {mat}
    Returns:
      A dense matrix.
    Raises: {TypeError}

    Source: JAX's function of this name.

    >>> coo_todense(coo_fromdense(np.array([[0, 3], [4, 0]])))
    Array([[0, 3],
           [4, 0]], dtype=int32)
    """
    return _check("coo_todense", mat, COO).todense()


@fill_docstring(_MATRIX_ENTRIES)
def coo_matvec(mat: COO, v: ArrayLike, transpose: bool = False) -> Array:
    """Multiply a COO matrix and a vector.

    Args: {mat, v, transpose}
    Returns:
      A dense vector.
    Raises:
      {TypeError}
      ValueError: `v` is not a vector, or the sizes differ.

    Source: JAX's function of this name.

    >>> coo_matvec(coo_fromdense(np.array([[0, 3], [4, 0]])), np.array([1, 2]))
    Array([6, 4], dtype=int32)
    """
    return _multiply("coo_matvec", _check("coo_matvec", mat, COO), v, 1, transpose)


@fill_docstring(_MATRIX_ENTRIES)
def coo_matmat(mat: COO, B: ArrayLike, *, transpose: bool = False) -> Array:
    """Multiply a COO matrix and a dense matrix.

    Args: {mat, B, transpose}
    Returns:
      A dense matrix.
    Raises:
      {TypeError}
      ValueError: `B` is not a matrix, or the sizes differ.

    Source: JAX's function of this name.

    >>> coo_matmat(coo_fromdense(np.array([[0, 3], [4, 0]])), np.array([[1], [2]])).T
    Array([[6, 4]], dtype=int32)
    """
    return _multiply("coo_matmat", _check("coo_matmat", mat, COO), B, 2, transpose)


@fill_docstring(_MATRIX_ENTRIES)
def csr_fromdense(mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> CSR:
    """Convert a dense matrix to a CSR that stores its nonzero elements.

    Args:
      mat: a dense matrix.
      {nse, index_dtype}
    Returns:
      A CSR matrix.
    Raises:
      ValueError: `mat` is not a matrix, or `nse` is too small, or not given under `jit`.

    Source: JAX's function of this name.

    >>> csr_fromdense(np.array([[0, 3], [4, 0]])).indptr
    Array([0, 1, 2], dtype=int32)
    """
    return CSR.fromdense(mat, nse=nse, index_dtype=index_dtype)


@fill_docstring(_MATRIX_ENTRIES)
def csr_todense(mat: CSR) -> Array:
    """Return the dense matrix of a CSR.

    Args: {mat}
    Returns:
      A dense matrix.
    Raises: {TypeError}

    Source: JAX's function of this name.

    >>> csr_todense(csr_fromdense(np.array([[0, 3], [4, 0]])))
    Array([[0, 3],
           [4, 0]], dtype=int32)
    """
    return _check("csr_todense", mat, CSR).todense()


@fill_docstring(_MATRIX_ENTRIES)
def csr_matvec(mat: CSR, v: ArrayLike, transpose: bool = False) -> Array:
    """Multiply a CSR matrix and a vector.

    Args: {mat, v, transpose}
    Returns:
      A dense vector.
    Raises:
      {TypeError}
      ValueError: `v` is not a vector, or the sizes differ.

    Source: JAX's function of this name.

    >>> csr_matvec(csr_fromdense(np.array([[0, 3], [4, 0]])), np.array([1, 2]), transpose=True)
    Array([8, 3], dtype=int32)
    """
    return _multiply("csr_matvec", _check("csr_matvec", mat, CSR), v, 1, transpose)


@fill_docstring(_MATRIX_ENTRIES)
def csr_matmat(mat: CSR, B: ArrayLike, *, transpose: bool = False) -> Array:
    """Multiply a CSR matrix and a dense matrix.

    Args: {mat, B, transpose}
    Returns:
      A dense matrix.
    Raises:
      {TypeError}
      ValueError: `B` is not a matrix, or the sizes differ.

    Source: JAX's function of this name.

    >>> csr_matmat(csr_fromdense(np.array([[0, 3], [4, 0]])), np.array([[1], [2]])).T
    Array([[6, 4]], dtype=int32)
    """
    return _multiply("csr_matmat", _check("csr_matmat", mat, CSR), B, 2, transpose)
