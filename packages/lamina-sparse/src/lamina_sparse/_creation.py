"""Make sparse arrays: empty ones, identities, random ones."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import lamina_numpy as lnp
import lamina_random as random
import numpy as np
from lamina_autodiff import checkpoint_name
from lamina_batching import vmap
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike
from lamina_tracing.extend import typeof

from ._bcoo import bcoo_sort_indices, bcoo_update_layout, check_layout
from ._compressed import bcsr_from_bcoo, matrix_from_bcoo
from ._types import BCOO, COO, CSC, CSR, JAXSparse, check_sizes

__all__ = ["TODENSE", "empty", "eye", "random_bcoo", "todense"]

TODENSE = "lamina_sparse.todense"  # name of the values that `sparsify` makes dense


def _convert(call: str, mat: BCOO, sparse_format: str) -> JAXSparse:
    match sparse_format:
        case "bcoo":
            return mat
        case "bcsr":
            return bcsr_from_bcoo(mat)
        case "coo" | "csr" | "csc":
            return matrix_from_bcoo({"coo": COO, "csr": CSR, "csc": CSC}[sparse_format], mat)
    raise ValueError(f"{call}: sparse_format must be 'bcoo', 'bcsr', 'coo', 'csr' or 'csc'; got {sparse_format!r}")


def empty(shape: Sequence[int], dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32",
          sparse_format: str = "bcoo", **kwds: Any) -> JAXSparse:
    """Make a sparse array without elements.

    Args:
      shape: the shape.
      dtype: dtype of the elements; None is the default float.
      index_dtype: dtype of the indices.
      sparse_format: 'bcoo', 'bcsr', 'coo', 'csr' or 'csc'.
      kwds: `n_batch`, `n_dense` and `nse`, of 'bcoo' and 'bcsr'.
    Returns:
      A sparse array of zeros; `nse` entries of it are padding.
    Raises:
      TypeError: an argument has another type, or a name in `kwds` is unknown.
      ValueError: `sparse_format` is unknown, or the layout does not fit.

    Source: JAX's function of this name.

    >>> empty((3, 4))
    BCOO(float32[3, 4], nse=0)
    """
    shape = check_sizes("empty", "shape", shape)
    n_batch, n_dense, nse = kwds.pop("n_batch", 0), kwds.pop("n_dense", 0), kwds.pop("nse", 0)
    if kwds:
        raise TypeError(f"empty: unknown arguments {sorted(kwds)}; expected n_batch, n_dense or nse")
    check_layout("empty", len(shape), n_batch, n_dense)
    split = len(shape) - n_dense
    data = lnp.zeros((*shape[:n_batch], nse, *shape[split:]), dtype)
    end = np.asarray(shape[n_batch:split], np.int64).astype(index_dtype)
    ends = np.broadcast_to(end, (*shape[:n_batch], nse, split - n_batch))
    return _convert("empty", BCOO((data, ends), shape=shape, indices_sorted=True, unique_indices=True), sparse_format)


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32",
        sparse_format: str = "bcoo", **kwds: Any) -> JAXSparse:
    """Make a sparse matrix with ones on a diagonal.

    Args:
      N, M: numbers of rows and of columns; M is N if None.
      k: number of the diagonal; positive ones are above the main diagonal.
      dtype: dtype of the elements; None is the default float.
      index_dtype: dtype of the indices.
      sparse_format: 'bcoo', 'bcsr', 'coo', 'csr' or 'csc'.
      kwds: `n_batch` and `n_dense`, of 'bcoo'.
    Returns:
      A sparse matrix `[N, M]`.
    Raises:
      TypeError: an argument has another type, or a name in `kwds` is unknown.
      ValueError: `sparse_format` is unknown, or the layout does not fit.

    Source: JAX's function of this name.

    >>> eye(2, 3, k=1).todense()
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    n, m, d = check_sizes("eye", "N, M, abs(k)", (N, N if M is None else M, abs(k)))
    n_batch, n_dense = kwds.pop("n_batch", 0), kwds.pop("n_dense", 0)
    if kwds:
        raise TypeError(f"eye: unknown arguments {sorted(kwds)}; expected n_batch or n_dense")
    row, column = (0, d) if k >= 0 else (d, 0)
    count = max(0, min(n - row, m - column))
    indices = np.stack([np.arange(row, row + count), np.arange(column, column + count)], -1).astype(index_dtype)
    mat = BCOO((lnp.ones(count, dtype), indices), shape=(n, m), indices_sorted=True, unique_indices=True)
    if n_batch or n_dense:
        mat = bcoo_update_layout(mat, n_batch=n_batch, n_dense=n_dense, on_inefficient=None)
    return _convert("eye", mat, sparse_format)


def random_bcoo(key: ArrayLike, shape: Sequence[int], *, dtype: DTypeLike = float, indices_dtype: DTypeLike | None = None,
                nse: float = 0.2, n_batch: int = 0, n_dense: int = 0, unique_indices: bool = True,
                sorted_indices: bool = False, generator: Callable[..., Any] = random.uniform, **kwds: Any) -> BCOO:
    """Make a BCOO array with random elements at random places.

    Args:
      key: a PRNG key.
      shape: the shape.
      dtype: dtype of the elements.
      indices_dtype: dtype of the indices; None is int32.
      nse: number of stored elements of each batch, or, below 1, their part of the sparse elements.
      n_batch, n_dense: number of leading batch dimensions and of trailing dense ones.
      unique_indices: whether no index repeats. This takes memory for all sparse elements of a batch.
      sorted_indices: whether the indices are sorted.
      generator: `generator(key, shape=, dtype=, **kwds)` makes the elements.
      kwds: further arguments of `generator`.
    Returns:
      A BCOO array.
    Raises:
      TypeError: an argument has another type.
      ValueError: `nse` is negative or larger than the number of elements, or the layout does not fit.

    Source: JAX's function of this name; the values differ.

    >>> from lamina_random import PRNGKey
    >>> random_bcoo(PRNGKey(0), (4, 5), nse=3)
    BCOO(float32[4, 5], nse=3)
    """
    shape = check_sizes("random_bcoo", "shape", shape)
    check_layout("random_bcoo", len(shape), n_batch, n_dense)
    split = len(shape) - n_dense
    batch, sparse = shape[:n_batch], shape[n_batch:split]
    size = math.prod(sparse)
    count = math.ceil(nse * size) if 0 < nse < 1 else int(nse)
    if not 0 <= count <= size:
        raise ValueError(f"random_bcoo: nse must be between 0 and {size}; got {nse}")
    keys = random.split(key)
    data = generator(keys[0], shape=(*batch, count, *shape[split:]), dtype=dtype, **kwds)
    dtype = indices_dtype or np.int32

    def draw(key: Any) -> Any:
        if unique_indices:
            flat = random.permutation(key, size)[:count]
            columns = lnp.unravel_index(flat, sparse) if sparse else []
        else:
            columns = [random.randint(k, (count,), 0, n) for k, n in zip(random.split(key, len(sparse)), sparse, strict=True)]
        return lnp.stack([lnp.astype(c, dtype) for c in columns], -1) if len(columns) else lnp.zeros((count, 0), dtype)
    rows = math.prod(batch)
    indices = vmap(draw)(random.split(keys[1], rows)) if rows else lnp.zeros((0, count, len(sparse)), dtype)
    mat = BCOO((data, lnp.reshape(indices, (*batch, count, len(sparse)))), shape=shape, unique_indices=unique_indices)
    return bcoo_sort_indices(mat) if sorted_indices else mat


def todense(arr: JAXSparse | ArrayLike) -> Array:
    """Return a dense array: of a sparse one, or a dense one as it is. In a function given to `sparsify` it makes values dense.

    Args:
      arr: a sparse or dense array.
    Returns:
      A dense array.
    Raises:
      TypeError: an argument has another type.

    Source: JAX's function of this name.

    >>> todense(eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if isinstance(arr, JAXSparse):
        return arr.todense()
    x = lnp.asarray(arr)
    return checkpoint_name(x, TODENSE) if dtypes.is_number(typeof(x).dtype) or dtypes.is_bool(typeof(x).dtype) else x
