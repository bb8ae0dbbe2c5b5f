"""Conversions of BCOO arrays, and their entries: sort, sum duplicates, extract."""
from __future__ import annotations

import math
import operator
import warnings
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_tracing import Array, ArrayLike, DTypeLike, jit, lax
from lamina_tracing.extend import Tracer, typeof

from ._entries import (batch_shape, concrete_int, dense_shape, expand, flatten_batch, gather_rows, is_stored, mask_padding,
                       row_like, scatter_rows, sort_rows, sparse_shape, starts_of_runs)
from ._types import BCOO, JAXSparse, SparseEfficiencyError, SparseEfficiencyWarning, check_bcoo

__all__ = ["BCOO_ENTRIES", "bcoo_extract", "bcoo_fromdense", "bcoo_sort_indices", "bcoo_sum_duplicates", "bcoo_todense",
           "bcoo_update_layout", "from_scipy_sparse", "merge_booleans", "sum_duplicates"]

BCOO_ENTRIES = docstring_entries("""
    mat: a BCOO array.
    arr: a dense array.
    nse: number of stored elements of each batch; None counts them, which is not possible under `jit`.
    n_batch, n_dense: number of leading batch dimensions and of trailing dense ones.
    index_dtype: dtype of the indices.
    bcoo: A BCOO array.
    operands: sparse arrays of one class; their shapes differ in this dimension only.
    dimension: the dimension along which the operands are joined.
    TypeError: an argument has another type.
    ValueError: the shapes do not fit, or there are no operands.
    """)


@jit
def _todense(mat: BCOO) -> Any:
    flat = flatten_batch(mat)
    sizes = sparse_shape(flat)
    return scatter_rows(sizes, *reversed(mask_padding(flat.data, flat.indices, is_stored(flat.indices, sizes), sizes)))


@fill_docstring(BCOO_ENTRIES)
def bcoo_todense(mat: BCOO) -> Array:
    """Return the dense array of a BCOO. Entries of the same index are added.

    Args: {mat}
    Returns:
      An array of the shape and the dtype of `mat`.
    Raises: {TypeError}

    Source: JAX's function of this name.

    >>> bcoo_todense(bcoo_fromdense(np.array([[0, 3], [0, 0]])))
    Array([[0, 3],
           [0, 0]], dtype=int32)
    """
    return _todense(check_bcoo("bcoo_todense", "mat", mat))


def _count_stored(call: str, count: Any, nse: int | None) -> int:
    """Return the number of entries to store: `nse`, or the largest count of a batch."""
    known = concrete_int(lnp.max(count)) if count.size else 0
    if nse is None:
        if known is None:
            raise ValueError(f"{call}: nse must be given under jit, vmap and other transformations, since the number "
                             f"of stored "
                             "elements is part of the type. Pass nse=")
        return known
    try:
        nse = operator.index(nse)
    except TypeError:
        raise TypeError(f"{call}: nse must be an integer; got {nse!r:.60}") from None
    if nse < 0 or known is not None and known > nse:
        raise ValueError(f"{call}: nse must be at least the number of elements to store, {known}; got {nse}")
    return nse


def check_layout(call: str, ndim: int, n_batch: int, n_dense: int) -> None:
    """Raise if an array of `ndim` dimensions has not that many batch and dense dimensions."""
    if not (isinstance(n_batch, int) and isinstance(n_dense, int)) or min(n_batch, n_dense) < 0 or n_batch + n_dense > ndim:
        raise ValueError(f"{call}: n_batch and n_dense must be at least 0 and their sum at most the {ndim} "
                         f"dimensions; got "
                         f"{n_batch} and {n_dense}")


@fill_docstring(BCOO_ENTRIES)
def bcoo_fromdense(mat: ArrayLike, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0,
                   index_dtype: DTypeLike = np.int32) -> BCOO:
    """Convert a dense array to a BCOO that stores its nonzero elements.

    Args:
      mat: a dense array.
      {nse, n_batch, n_dense, index_dtype}
    Returns:
      A BCOO array with sorted, unique indices. Entries past the nonzero elements are padding.
    Raises:
      TypeError: an argument has another type.
      ValueError: `nse` is too small, or not given under `jit`; or the layout does not fit.

    Source: JAX's function of this name, which drops elements if `nse` is too small.

    >>> bcoo_fromdense(np.array([[0, 3], [0, 0]]), nse=2).indices
    Array([[0, 1],
           [2, 2]], dtype=int32)
    """
    if isinstance(mat, JAXSparse):
        raise TypeError(f"bcoo_fromdense: mat must be a dense array; got {type(mat).__name__}")
    x = lnp.asarray(mat)
    shape = tuple(x.shape)
    check_layout("bcoo_fromdense", len(shape), n_batch, n_dense)
    split = len(shape) - n_dense
    batch, sparse, dense = shape[:n_batch], shape[n_batch:split], shape[split:]
    rows, columns = math.prod(batch), math.prod(sparse)
    flat = lnp.reshape(x, (rows, columns, *dense))
    nonzero = lnp.any(flat != 0, tuple(range(2, len(dense) + 2)))
    place = lnp.cumsum(lnp.astype(nonzero, "int32"), 1) - 1
    nse = _count_stored("bcoo_fromdense", place[:, -1] + 1 if columns else place, nse)
    # position in the flat sparse shape of each stored element; `columns` for padding
    row, column = lnp.indices((rows, columns), "int32") if rows * columns else (place, place)
    found = lnp.full((rows, nse), columns, "int32").at[row, lnp.where(nonzero, place, nse)].set(column, mode="drop")
    data = gather_rows(flat, lnp.stack([lnp.broadcast_to(lnp.arange(rows)[:, None], found.shape), found], -1).reshape(-1, 2))
    indices = lnp.stack(lnp.unravel_index(found, sparse), -1) if sparse else lnp.zeros((rows, nse, 0), "int32")
    indices = lnp.where((found < columns)[..., None], indices, row_like(indices, sparse))
    return BCOO((lnp.reshape(data, (*batch, nse, *dense)),
                 lnp.astype(lnp.reshape(indices, (*batch, nse, len(sparse))), index_dtype)),
                shape=shape, indices_sorted=True, unique_indices=True)


def from_scipy_sparse(mat: Any, index_dtype: DTypeLike | None, n_dense: int, n_batch: int) -> BCOO:
    """Convert a sparse matrix or array of SciPy."""
    if n_dense or n_batch:
        raise NotImplementedError("BCOO.from_scipy_sparse: n_batch and n_dense must be 0. Use update_layout afterwards")
    if not hasattr(mat, "tocoo"):
        raise TypeError(f"BCOO.from_scipy_sparse: mat must be a sparse matrix or array of SciPy; got "
                        f"{type(mat).__name__}. Use "
                        "BCOO.fromdense")
    coo = mat.tocoo()
    columns = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
    return BCOO((coo.data, np.stack(columns, -1).astype(index_dtype or np.int32)), shape=coo.shape)


@jit
def _sorted(mat: BCOO) -> tuple[Any, Any]:
    batch = batch_shape(mat)
    stored = is_stored(mat.indices, sparse_shape(mat))
    data, indices = mask_padding(expand(mat.data, batch), expand(mat.indices, batch), expand(stored, batch),
                                 sparse_shape(mat))
    indices, order = sort_rows(indices)
    order = lnp.expand_dims(order, tuple(range(len(order.shape), len(data.shape))))
    return lnp.take_along_axis(data, order, len(batch)), indices


@fill_docstring(BCOO_ENTRIES)
def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """Sort the entries of each batch by their indices, padding last.

    Args: {mat}
    Returns: {bcoo}
    Raises: {TypeError}

    Source: JAX's function of this name.

    >>> bcoo_sort_indices(bcoo_fromdense(np.eye(2))[::-1]).indices
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    mat = check_bcoo("bcoo_sort_indices", "mat", mat)
    return mat if mat.indices_sorted else BCOO(_sorted(mat), shape=mat.shape, indices_sorted=True,
                                               unique_indices=mat.unique_indices)


def sum_duplicates(mat: BCOO, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
    """As `bcoo_sum_duplicates`; if `remove_zeros`, entries whose data is 0 become padding."""
    mat = check_bcoo("bcoo_sum_duplicates", "mat", mat)
    batch, sparse, dense = batch_shape(mat), sparse_shape(mat), dense_shape(mat)
    if remove_zeros:
        nonzero = lnp.any(mat.data != 0, tuple(range(mat.n_batch + 1, len(mat.data.shape))))
        indices = expand(mat.indices, tuple(nonzero.shape[:-1]) if mat.n_batch else ())
        mat = BCOO((mat.data, lnp.where(nonzero[..., None], indices, _ends(mat))), shape=mat.shape)
        if not sparse:  # no index can mark padding
            mat = BCOO((lnp.where(lnp.expand_dims(nonzero, tuple(range(len(nonzero.shape), len(mat.data.shape)))), mat.data, 0),
                        mat.indices), shape=mat.shape)
    data, indices = _sorted(mat)
    rows, n = math.prod(batch), mat.nse
    data, indices = lnp.reshape(data, (rows, n, *dense)), lnp.reshape(indices, (rows, n, len(sparse)))
    stored = is_stored(indices, sparse)
    starts = starts_of_runs(indices) & stored
    group = lnp.cumsum(lnp.astype(starts, "int32"), 1) - 1
    if not sparse and remove_zeros and nse is None and not mat.n_batch:
        count = lnp.any(data != 0)[None]
    else:
        count = group[:, -1] + 1 if n else group
    nse = _count_stored("bcoo_sum_duplicates", count, nse)
    row = lnp.broadcast_to(lnp.arange(rows, dtype="int32")[:, None], group.shape)
    group = lnp.where(stored, group, nse)
    places = lnp.reshape(lnp.stack([row, group], -1), (rows * n, 2))
    data = scatter_rows((rows, nse), places, lnp.reshape(data, (rows * n, *dense)))
    found = lnp.broadcast_to(_ends(mat).reshape(-1), (rows, nse, len(sparse))).at[row, group].set(indices, mode="drop")
    return BCOO((lnp.reshape(data, (*batch, nse, *dense)), lnp.reshape(found, (*batch, nse, len(sparse)))), shape=mat.shape,
                indices_sorted=True, unique_indices=True)


def merge_booleans(mat: BCOO) -> BCOO:
    """Return a boolean array with one entry for each index, since `or` of entries is no sum; others as they are."""
    return bcoo_sum_duplicates(mat, nse=mat.nse) if dtypes.is_bool(mat.dtype) and not mat.unique_indices else mat


def _ends(mat: BCOO) -> Any:
    """Return the index of padding."""
    return row_like(mat.indices, sparse_shape(mat))


@fill_docstring(BCOO_ENTRIES)
def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """Add the entries of the same index.

    Args: {mat, nse}
    Returns:
      A BCOO array with sorted, unique indices.
    Raises:
      TypeError: an argument has another type.
      ValueError: `nse` is too small, or not given under `jit`.

    Source: JAX's function of this name, which drops elements if `nse` is too small.

    >>> x = bcoo_fromdense(np.array([1, 0, 2]))
    >>> bcoo_sum_duplicates(x + x).data
    Array([2, 4], dtype=int32)
    """
    return sum_duplicates(mat, nse, remove_zeros=False)


@fill_docstring(BCOO_ENTRIES)
def bcoo_extract(sparr: BCOO, arr: ArrayLike, *, assume_unique: bool | None = None) -> BCOO:
    """Return the elements of a dense array at the indices of a sparse one.

    Args:
      sparr: a BCOO array.
      arr: a dense array of the same shape.
      assume_unique: whether to give every entry of a repeated index the element, instead of only the first one. None
        takes the flag of `sparr`.
    Returns:
      A BCOO array with the indices of `sparr`.
    Raises:
      TypeError: an argument has another type.
      ValueError: the shapes differ.

    Source: JAX's function of this name.

    >>> bcoo_extract(bcoo_fromdense(np.eye(2)), np.array([[1, 2], [3, 4]])).data
    Array([1, 4], dtype=int32)
    """
    mat = check_bcoo("bcoo_extract", "sparr", sparr)
    x = lnp.asarray(arr)
    if tuple(x.shape) != mat.shape:
        raise ValueError(f"bcoo_extract: arr must have the shape {mat.shape} of sparr; got {tuple(x.shape)}")
    flat = flatten_batch(mat)
    stored = is_stored(flat.indices, sparse_shape(flat))
    if not (mat.unique_indices if assume_unique is None else assume_unique):
        ordered, order = sort_rows(flat.indices)
        stored &= lnp.zeros(flat.nse, bool).at[order].set(starts_of_runs(ordered))
    data = gather_rows(x, flat.indices)
    data = lnp.where(lnp.expand_dims(stored, tuple(range(1, len(data.shape)))), data, lnp.zeros((), data.dtype))
    batch = batch_shape(mat)
    return BCOO((lnp.reshape(data, (*batch, mat.nse, *dense_shape(mat))), mat.indices), shape=mat.shape,
                indices_sorted=mat.indices_sorted, unique_indices=mat.unique_indices)


@fill_docstring(BCOO_ENTRIES)
def bcoo_update_layout(mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None,
                       on_inefficient: str | None = "error") -> BCOO:
    """Change which dimensions are batch, sparse and dense.

    Args:
      {mat}
      n_batch, n_dense: the new numbers of batch and dense dimensions; None keeps them.
      on_inefficient: what to do if more elements are stored than before by more than their batch needs: 'error', 'warn'
        or None.
    Returns: {bcoo}
    Raises:
      TypeError: an argument has another type.
      ValueError: the layout does not fit, or `on_inefficient` is unknown.
      SparseEfficiencyError: a number grows, and the result would be inefficient.

    Source: JAX's function of this name.

    >>> bcoo_update_layout(bcoo_fromdense(np.eye(3)), n_batch=1)
    BCOO(float32[3, 3], nse=1, n_batch=1)
    """
    call = "bcoo_update_layout"
    mat = check_bcoo(call, "mat", mat)
    batch, dense = mat.n_batch if n_batch is None else n_batch, mat.n_dense if n_dense is None else n_dense
    check_layout(call, mat.ndim, batch, dense)
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(f"{call}: on_inefficient must be 'error', 'warn' or None; got {on_inefficient!r}")
    mat = _split_dense(flatten_batch(mat, batch), dense)
    if batch > mat.n_batch or dense > mat.n_dense:
        grown = _grow(mat, batch, dense)
        stored, needed = math.prod(grown.data.shape), math.prod(mat.data.shape)
        if stored > needed and on_inefficient:
            text = (f"{call}: with n_batch={batch} and n_dense={dense} an array of shape {mat.shape} stores {stored} "
                    f"elements "
                    f"instead of {needed}. Pass on_inefficient=None to allow this")
            if on_inefficient == "error":
                raise SparseEfficiencyError(text)
            warnings.warn(text, SparseEfficiencyWarning, stacklevel=2)
        return grown
    return mat


def _split_dense(mat: BCOO, n_dense: int) -> BCOO:
    """Make the dense dimensions before the last `n_dense` sparse ones."""
    moved = dense_shape(mat)[:mat.n_dense - n_dense]
    if mat.n_dense <= n_dense:
        return mat
    batch, n = batch_shape(mat), math.prod(moved)
    data, indices = expand(mat.data, batch), expand(mat.indices, batch)
    stored = is_stored(indices, sparse_shape(mat))
    columns = np.indices(moved).reshape(len(moved), n).T.astype(typeof(indices).dtype)
    shape = (*batch, mat.nse, n)
    indices = lnp.concatenate([lnp.broadcast_to(indices[..., None, :], (*shape, mat.n_sparse)),
                               lnp.broadcast_to(columns, (*shape, len(moved)))], -1)
    data = lnp.reshape(data, shape + dense_shape(mat)[len(moved):])
    data, indices = mask_padding(data, indices, lnp.broadcast_to(stored[..., None], shape), sparse_shape(mat) + moved)
    rows = (*batch, mat.nse * n)
    return BCOO((lnp.reshape(data, rows + data.shape[len(shape):]), lnp.reshape(indices, (*rows, indices.shape[-1]))),
                shape=mat.shape, unique_indices=mat.unique_indices)


def _grow(mat: BCOO, n_batch: int, n_dense: int) -> BCOO:
    """Make leading sparse dimensions batch ones, and trailing ones dense. Needs known indices, to find the new nse."""
    if isinstance(mat.indices, Tracer):
        raise NotImplementedError("bcoo_update_layout: more batch or dense dimensions need known indices. Call it "
                                  "outside of "
                                  "jit, vmap and other transformations")
    flat = flatten_batch(mat)
    split = mat.ndim - n_dense - flat.n_batch
    kept = flat.indices[:, :split]
    stored = is_stored(flat.indices, sparse_shape(flat))
    kept = mask_padding(flat.data, kept, stored, mat.shape[:split])[1]
    ordered, order = sort_rows(kept)
    runs = starts_of_runs(ordered)  # one entry of the result for each different index
    group = lnp.zeros(flat.nse, "int32").at[order].set(lnp.astype(lnp.cumsum(lnp.astype(runs, "int32")) - 1, "int32"))
    first = ordered[runs] if flat.nse else ordered
    valid = is_stored(first, mat.shape[:split])
    # number the entries within their batch
    batch_runs = starts_of_runs(first[:, :n_batch])
    position = lnp.arange(first.shape[0])
    begin = lax.cummax(lnp.where(batch_runs, position, 0)) if first.shape[0] else position
    slot = position - begin
    nse = int(lnp.max(lnp.where(valid, slot + 1, 0))) if first.shape[0] else 0
    batch, dense = mat.shape[:n_batch], mat.shape[split:]
    places = lnp.concatenate([kept[:, :n_batch], slot[group][:, None], flat.indices[:, split:]], 1) if flat.nse else (
        lnp.zeros((0, n_batch + 1 + flat.n_sparse - split), "int32"))
    data = scatter_rows((*batch, nse, *mat.shape[split:flat.ndim - flat.n_dense]), places, flat.data)
    ends = np.asarray(mat.shape[n_batch:split], typeof(mat.indices).dtype)
    indices = lnp.broadcast_to(lnp.asarray(ends), (*batch, nse, split - n_batch))
    if first.shape[0]:
        where = (*[first[:, i] for i in range(n_batch)], lnp.where(valid, slot, nse))
        indices = indices.at[where].set(first[:, n_batch:], mode="drop")
    return BCOO((lnp.reshape(data, (*batch, nse, *dense)), indices), shape=mat.shape, indices_sorted=True, unique_indices=True)
