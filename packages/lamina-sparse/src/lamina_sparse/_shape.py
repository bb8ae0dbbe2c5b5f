"""Functions that move, select or add elements of BCOO arrays: transpose, reshape, slice, gather, concatenate, sums."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_batching import vmap
from lamina_ir import dtypes
from lamina_ir.extend import fill_docstring
from lamina_ir.typing import Value
from lamina_tracing import ArrayLike, lax
from lamina_tracing.extend import typeof

from ._bcoo import BCOO_ENTRIES, bcoo_sum_duplicates, bcoo_update_layout
from ._entries import (batch_shape, dense_shape, expand, flatten_batch, is_stored, mask_padding, row_like, sparse_shape,
                       take_columns)
from ._types import BCOO, check_bcoo, check_sizes

__all__ = ["bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_dynamic_slice", "bcoo_gather", "bcoo_reduce_sum",
           "bcoo_reshape", "bcoo_rev", "bcoo_slice", "bcoo_squeeze", "bcoo_transpose"]


def _check_axes(call: str, name: str, axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return distinct axes as nonnegative ints, or raise."""
    try:
        found = tuple([int(np.asarray(a).astype(np.int64).item()) for a in axes])
    except (TypeError, ValueError):
        raise TypeError(f"{call}: {name} must be a sequence of integers; got {axes!r:.60}") from None
    if any(not -ndim <= a < ndim for a in found) or len({a % ndim for a in found}) < len(found):
        raise ValueError(f"{call}: {name} must be distinct axes of {ndim} dimensions; got {found}")
    return tuple([a % ndim for a in found])


def _drop_columns(mat: BCOO, columns: Sequence[int], kept: Sequence[int]) -> tuple[Value, Value]:
    """Return data and indices without some sparse dimensions; padding stays padding, with the data 0."""
    batch = batch_shape(mat)
    data, indices = expand(mat.data, batch), expand(mat.indices, batch)
    if not columns:
        return data, indices
    data, indices = mask_padding(data, indices, is_stored(indices, sparse_shape(mat)), sparse_shape(mat))
    return data, take_columns(indices, kept)


@fill_docstring(BCOO_ENTRIES)
def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """Permute the dimensions.

    Args:
      {mat}
      permutation: the dimension of `mat` for each dimension of the result.
    Returns:
      A BCOO array. Batch dimensions become sparse if they are permuted with sparse ones.
    Raises:
      TypeError: an argument has another type.
      ValueError: `permutation` is not one.
      NotImplementedError: dense dimensions are permuted with others.

    Source: JAX's function of this name, which does not permute batch with sparse dimensions.

    >>> bcoo_transpose(BCOO.fromdense(np.array([[0, 3], [0, 0]])), permutation=(1, 0)).todense()
    Array([[0, 0],
           [3, 0]], dtype=int32)
    """
    mat = check_bcoo("bcoo_transpose", "mat", mat)
    order = _check_axes("bcoo_transpose", "permutation", permutation, mat.ndim)
    if len(order) != mat.ndim:
        raise ValueError(f"bcoo_transpose: permutation must have {mat.ndim} axes; got {order}")
    if order == tuple(range(mat.ndim)):
        return mat
    if sorted(order[:mat.n_batch]) != list(range(mat.n_batch)):
        mat = flatten_batch(mat)
    b, split = mat.n_batch, mat.ndim - mat.n_dense
    if sorted(order[split:]) != list(range(split, mat.ndim)):
        raise NotImplementedError(f"bcoo_transpose: permutation must not mix the {mat.n_dense} dense dimensions with "
                                  f"others; got "
                                  f"{order}. Use update_layout(n_dense=0) first")
    data = lnp.transpose(mat.data, (*order[:b], b, *[a - split + b + 1 for a in order[split:]]))
    indices = lnp.transpose(mat.indices, (*order[:b], b, b + 1))
    columns = [a - b for a in order[b:split]]
    is_sorted = mat.indices_sorted and columns == sorted(columns)
    return BCOO((data, take_columns(indices, columns)), shape=tuple([mat.shape[a] for a in order]),
                indices_sorted=is_sorted, unique_indices=mat.unique_indices)


@fill_docstring(BCOO_ENTRIES)
def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """Sum over dimensions.

    Args:
      {mat}
      axes: the dimensions.
    Returns:
      A BCOO array without these dimensions. Its indices may repeat.
    Raises:
      TypeError: an argument has another type.
      ValueError: `axes` are not distinct axes.

    Source: JAX's function of this name.

    >>> bcoo_reduce_sum(BCOO.fromdense(np.array([[1, 3], [0, 2]])), axes=(0,)).todense()
    Array([1, 5], dtype=int32)
    """
    mat = check_bcoo("bcoo_reduce_sum", "mat", mat)
    axes = _check_axes("bcoo_reduce_sum", "axes", axes, mat.ndim)
    b, split = mat.n_batch, mat.ndim - mat.n_dense
    columns = [a - b for a in axes if b <= a < split]
    batch_axes = [a for a in axes if a < b]
    kept = [a for a in range(mat.n_sparse) if a not in columns]
    data, indices = _drop_columns(mat, columns, kept)
    kept_batch = [a for a in range(b) if a not in batch_axes]
    n = mat.nse * math.prod([mat.shape[a] for a in batch_axes])

    def merge(x: Value) -> Value:
        x = lnp.transpose(x, (*kept_batch, *batch_axes, *range(b, len(x.shape))))
        return lnp.reshape(x, (*x.shape[:len(kept_batch)], n, *x.shape[b + 1:]))
    data = lnp.sum(data, tuple([a - split + b + 1 for a in axes if a >= split]), dtype=typeof(data).dtype)
    return BCOO((merge(data), merge(indices)), shape=tuple([n for a, n in enumerate(mat.shape) if a not in axes]),
                unique_indices=mat.unique_indices and not columns and not batch_axes)


@fill_docstring(BCOO_ENTRIES)
def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """Remove dimensions of size 1.

    Args:
      arr: a BCOO array.
      dimensions: the dimensions.
    Returns: {bcoo}
    Raises:
      TypeError: an argument has another type.
      ValueError: a dimension has another size.

    Source: JAX's function of this name.

    >>> bcoo_squeeze(BCOO.fromdense(np.array([[0, 3]])), dimensions=(0,)).todense()
    Array([0, 3], dtype=int32)
    """
    mat = check_bcoo("bcoo_squeeze", "arr", arr)
    axes = _check_axes("bcoo_squeeze", "dimensions", dimensions, mat.ndim)
    if any(mat.shape[a] != 1 for a in axes):
        raise ValueError(f"bcoo_squeeze: dimensions must have size 1; got {axes} of shape {mat.shape}")
    made = bcoo_reduce_sum(mat, axes=axes)
    return BCOO((made.data, made.indices), shape=made.shape, unique_indices=mat.unique_indices)


def _linear_index(indices: Value, sizes: Sequence[int], new: Sequence[int]) -> Value:
    """Return indices `[..., k]` into `sizes` as indices into `new`, which has as many elements."""
    groups: list[Value] = []
    i = j = 0
    while i < len(sizes) or j < len(new):  # groups of dimensions that correspond, so that products stay small
        first_i, first_j, m, n = i, j, 1, 1
        while True:
            if m <= n and i < len(sizes) and (m < n or i == first_i):
                m, i = m * sizes[i], i + 1
            elif j < len(new) and (n < m or j == first_j):
                n, j = n * new[j], j + 1
            else:
                break
        if m > np.iinfo(typeof(indices).dtype).max:
            raise ValueError(f"bcoo_reshape: a dimension of {m} elements does not fit the dtype "
                             f"{typeof(indices).dtype.name} of "
                             "the indices. Use index_dtype='int64' with enable_x64")
        flat = lnp.zeros(indices.shape[:-1], typeof(indices).dtype)
        for k in range(first_i, i):
            flat = flat * sizes[k] + indices[..., k]
        parts = []
        for size in reversed(new[first_j:j]):
            parts.append(flat % size)
            flat = flat // size
        groups += reversed(parts)
    return lnp.stack(groups, -1) if groups else indices[..., :0]


@fill_docstring(BCOO_ENTRIES)
def bcoo_reshape(mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> BCOO:
    """Change the shape.

    Args:
      {mat}
      new_sizes: the new shape.
      dimensions: the order in which the dimensions of `mat` are read; None is their order.
    Returns:
      A BCOO array. Batch dimensions that are joined with sparse ones become sparse.
    Raises:
      TypeError: an argument has another type.
      ValueError: the numbers of elements differ, dense dimensions are joined with others, or an index would overflow.

    Source: JAX's function of this name, which does not join batch with sparse dimensions.

    >>> bcoo_reshape(BCOO.fromdense(np.array([[0, 3], [4, 0]])), new_sizes=(4,)).todense()
    Array([0, 3, 4, 0], dtype=int32)
    """
    mat = check_bcoo("bcoo_reshape", "mat", mat)
    new = check_sizes("bcoo_reshape", "new_sizes", new_sizes)
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    if math.prod(new) != mat.size:
        raise ValueError(f"bcoo_reshape: new_sizes must have {mat.size} elements, as the shape {mat.shape}; got {new}")
    if new == mat.shape:
        return mat
    if not mat.size:
        return bcoo_update_layout(_empty(new, mat), n_batch=0)
    dense, d = math.prod(dense_shape(mat)), 0
    if mat.n_dense:
        d = next((d for d in range(1, len(new) + 1) if math.prod(new[len(new) - d:]) == dense), 0)
        if not d:
            raise ValueError(f"bcoo_reshape: new_sizes must not join the {mat.n_dense} dense dimensions of shape "
                             f"{mat.shape} with "
                             f"others; got {new}. Use update_layout(n_dense=0) first")
    split = len(new) - d
    b = 0
    if mat.n_batch:
        batch = math.prod(batch_shape(mat))
        b = next((b for b in range(1, split + 1) if math.prod(new[:b]) == batch), 0)
        if not b:
            mat = flatten_batch(mat)
    full = batch_shape(mat)
    data, indices = expand(mat.data, full), expand(mat.indices, full)
    stored = is_stored(indices, sparse_shape(mat))
    indices = _linear_index(indices, sparse_shape(mat), new[b:split])
    data, indices = mask_padding(data, indices, stored, new[b:split])
    data = lnp.reshape(data, (*new[:b], mat.nse, *new[split:]))
    return BCOO((data, lnp.reshape(indices, (*new[:b], mat.nse, split - b))), shape=new,
                indices_sorted=mat.indices_sorted, unique_indices=mat.unique_indices)


def _empty(shape: tuple[int, ...], like: BCOO) -> BCOO:
    """Return a BCOO array without stored elements."""
    return BCOO((lnp.zeros(0, like.dtype), lnp.zeros((0, len(shape)), typeof(like.indices).dtype)), shape=shape,
                indices_sorted=True, unique_indices=True)


@fill_docstring(BCOO_ENTRIES)
def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """Reverse dimensions.

    Args:
      operand: a BCOO array.
      dimensions: the dimensions.
    Returns: {bcoo}
    Raises:
      TypeError: an argument has another type.
      ValueError: `dimensions` are not distinct axes.

    Source: JAX's function of this name.

    >>> bcoo_rev(BCOO.fromdense(np.array([0, 3, 4])), (0,)).todense()
    Array([4, 3, 0], dtype=int32)
    """
    mat = check_bcoo("bcoo_rev", "operand", operand)
    axes = _check_axes("bcoo_rev", "dimensions", dimensions, mat.ndim)
    b, split, sparse = mat.n_batch, mat.ndim - mat.n_dense, sparse_shape(mat)
    batch_axes = tuple([a for a in axes if a < b])
    data = lnp.flip(mat.data, (*batch_axes, *[a - split + b + 1 for a in axes if a >= split]))
    indices = lnp.flip(mat.indices, batch_axes)
    columns = [a - b for a in axes if b <= a < split]
    if columns:
        stored = is_stored(indices, sparse)[..., None]
        is_reversed = np.isin(np.arange(len(sparse)), columns)
        ends, is_reversed = row_like(indices, sparse), row_like(indices, is_reversed.tolist()) != 0
        indices = lnp.where(stored, lnp.where(is_reversed, ends - 1 - indices, indices), ends)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=mat.indices_sorted and not columns,
                unique_indices=mat.unique_indices)


def _select_range(mat: BCOO, starts: Sequence[Any], sizes: Sequence[int], strides: Sequence[int]) -> BCOO:
    """Select `sizes` elements from `starts` in steps of `strides` along each sparse dimension."""
    if tuple(sizes) == sparse_shape(mat) and all(isinstance(s, int) for s in starts):
        return mat
    batch = batch_shape(mat)
    data, indices = expand(mat.data, batch), expand(mat.indices, batch)
    dtype = typeof(indices).dtype
    stored = is_stored(indices, sparse_shape(mat))
    if sizes:
        first = lnp.stack([lnp.astype(lnp.asarray(s), dtype) for s in starts])
        moved = indices - lnp.reshape(first, (1,) * (indices.ndim - 1) + first.shape)
        steps = row_like(indices, strides)
        stored &= lnp.all((moved >= 0) & (moved % steps == 0), -1)
        indices = moved // steps
        stored &= is_stored(indices, tuple(sizes))
    data, indices = mask_padding(data, indices, stored, tuple(sizes))
    made = BCOO((data, indices), shape=batch + tuple(sizes) + dense_shape(mat), indices_sorted=False,
                unique_indices=mat.unique_indices)
    n = math.prod(sizes)
    return bcoo_sum_duplicates(made, nse=n) if n < mat.nse else made


@fill_docstring(BCOO_ENTRIES)
def bcoo_slice(mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int],
               strides: Sequence[int] | None = None) -> BCOO:
    """Select a range of each dimension.

    Args:
      {mat}
      start_indices, limit_indices: first index and end of the range of each dimension.
      strides: the steps; None is 1.
    Returns: {bcoo}
    Raises:
      TypeError: an argument has another type.
      ValueError: a range does not fit the shape.

    Source: JAX's function of this name.

    >>> bcoo_slice(BCOO.fromdense(np.array([0, 3, 4])), start_indices=(1,), limit_indices=(3,)).todense()
    Array([3, 4], dtype=int32)
    """
    mat = check_bcoo("bcoo_slice", "mat", mat)
    starts, limits = (check_sizes("bcoo_slice", name, x) for name, x in (("start_indices", start_indices),
                                                                       ("limit_indices", limit_indices)))
    steps = check_sizes("bcoo_slice", "strides", (1,) * mat.ndim if strides is None else strides)
    if not len(starts) == len(limits) == len(steps) == mat.ndim or any(
            not 0 <= a <= b <= n or s < 1 for a, b, n, s in zip(starts, limits, mat.shape, steps, strict=True)):
        raise ValueError(f"bcoo_slice: ranges must fit the shape {mat.shape}; got start_indices={starts}, "
                         f"limit_indices={limits}, "
                         f"strides={steps}")
    b, split = mat.n_batch, mat.ndim - mat.n_dense
    kept = tuple([slice(*r) for r in zip(starts[:b], limits[:b], steps[:b], strict=True)])
    batch = batch_shape(mat)
    data = expand(mat.data, batch)[(*kept, slice(None), *[slice(*r) for r in zip(starts[split:], limits[split:], steps[split:],
                                                                               strict=True)])]
    sizes = tuple([-(-(e - a) // s) for a, e, s in zip(starts, limits, steps, strict=True)])
    part = BCOO((data, expand(mat.indices, batch)[kept]), shape=sizes[:b] + sparse_shape(mat) + sizes[split:],
                indices_sorted=mat.indices_sorted, unique_indices=mat.unique_indices)
    return _select_range(part, starts[b:split], sizes[b:split], steps[b:split])


@fill_docstring(BCOO_ENTRIES)
def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """Select a range of each dimension from starts that may be traced.

    Args:
      {mat}
      start_indices: integer scalars, clamped so that the ranges fit the shape.
      slice_sizes: the sizes of the ranges.
    Returns: {bcoo}
    Raises:
      TypeError: an argument has another type.
      ValueError: a size does not fit the shape.

    Source: JAX's function of this name.

    >>> bcoo_dynamic_slice(BCOO.fromdense(np.array([0, 3, 4])), (1,), (2,)).todense()
    Array([3, 4], dtype=int32)
    """
    mat = check_bcoo("bcoo_dynamic_slice", "mat", mat)
    sizes = check_sizes("bcoo_dynamic_slice", "slice_sizes", slice_sizes)
    starts = [lnp.asarray(s) for s in start_indices]
    if not len(starts) == len(sizes) == mat.ndim or any(n > m for n, m in zip(sizes, mat.shape, strict=True)):
        raise ValueError(f"bcoo_dynamic_slice: start_indices and slice_sizes must fit the shape {mat.shape}; got "
                         f"{len(starts)} starts "
                         f"and sizes {sizes}")
    if any(s.shape or not dtypes.is_integer(typeof(s).dtype) for s in starts):
        raise TypeError("bcoo_dynamic_slice: start_indices must be integer scalars")
    b, split, batch = mat.n_batch, mat.ndim - mat.n_dense, batch_shape(mat)
    starts = [lnp.clip(lnp.where(s < 0, s + n, s), 0, n - size) for s, n, size in zip(starts, mat.shape, sizes, strict=True)]
    zero = lnp.zeros((), "int32")
    dtype = "int32"
    whole = [lnp.astype(s, dtype) for s in starts]
    data = lax.dynamic_slice(expand(mat.data, batch), (*whole[:b], zero, *whole[split:]), (*sizes[:b], mat.nse, *sizes[split:]))
    indices = lax.dynamic_slice(expand(mat.indices, batch), (*whole[:b], zero, zero), (*sizes[:b], mat.nse, mat.n_sparse))
    part = BCOO((data, indices), shape=sizes[:b] + sparse_shape(mat) + sizes[split:], unique_indices=mat.unique_indices)
    return _select_range(part, starts[b:split], sizes[b:split], (1,) * mat.n_sparse)


@fill_docstring(BCOO_ENTRIES)
def bcoo_broadcast_in_dim(mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> BCOO:
    """Add dimensions and repeat elements along dimensions of size 1.

    Args:
      {mat}
      shape: the new shape.
      broadcast_dimensions: for each dimension of `mat`, its dimension in the result, increasing.
    Returns:
      A BCOO array. New dimensions before the first sparse one are batch dimensions.
    Raises:
      TypeError: an argument has another type.
      ValueError: the shapes do not fit.

    Source: JAX's function of this name.

    >>> bcoo_broadcast_in_dim(BCOO.fromdense(np.array([0, 3])), shape=(2, 2), broadcast_dimensions=(1,)).todense()
    Array([[0, 3],
           [0, 3]], dtype=int32)
    """
    mat = check_bcoo("bcoo_broadcast_in_dim", "mat", mat)
    shape = check_sizes("bcoo_broadcast_in_dim", "shape", shape)
    places = check_sizes("bcoo_broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions)
    if len(places) != mat.ndim or list(places) != sorted(set(places)) or any(
            a >= len(shape) or n not in (1, shape[a]) for a, n in zip(places, mat.shape, strict=False)):
        raise ValueError(f"bcoo_broadcast_in_dim: broadcast_dimensions must map the shape {mat.shape} to dimensions "
                         f"of the same size "
                         f"(or from size 1) in shape, in increasing order; got {places} and shape={shape}")
    b, split, ndim = mat.n_batch, mat.ndim - mat.n_dense, mat.ndim
    new_b = places[b] if b < ndim else len(shape)
    new_split = places[split] if split < ndim else len(shape)
    full = batch_shape(mat)
    stored = is_stored(expand(mat.indices, full), sparse_shape(mat))
    data, indices = mask_padding(expand(mat.data, full), expand(mat.indices, full), stored, sparse_shape(mat))
    nse = mat.nse
    batch_places = places[:b]
    lead = shape[:new_b]
    kept = tuple([mat.shape[batch_places.index(a)] if a in batch_places else 1 for a in range(new_b)])
    data = lnp.reshape(data, (*kept, nse, *dense_shape(mat)))
    data = lax.broadcast_in_dim(data, (*lead, nse, *shape[new_split:]),
                                (*range(new_b + 1), *[a - new_split + new_b + 1 for a in places[split:]]))
    indices, stored = (lnp.broadcast_to(lnp.reshape(x, (*kept, *x.shape[b:])), (*lead, *x.shape[b:]))
                       for x in (indices, stored))
    columns: list[Value] = []
    for a in range(new_b, new_split):
        old = places.index(a) if a in places else None
        size = 1 if old is None else mat.shape[old]
        if shape[a] == size:
            columns.append(lnp.zeros(indices.shape[:-1], indices.dtype) if old is None else indices[..., old - b])
            continue
        repeats = shape[a]  # each entry is stored once for each index of the new dimension

        def repeat(x: Value, axis: int = new_b, n: int = repeats) -> Value:
            return lnp.repeat(x, n, axis=axis, total_repeat_length=x.shape[axis] * n)
        data, indices, stored, columns = repeat(data), repeat(indices), repeat(stored), [repeat(c) for c in columns]
        columns.append(lnp.broadcast_to(lnp.tile(lax.iota(indices.dtype, repeats), nse), indices.shape[:-1]))
        nse *= repeats
    indices = lnp.stack(columns, -1) if columns else indices[..., :0]
    data, indices = mask_padding(data, indices, stored, shape[new_b:new_split])
    return BCOO((data, indices), shape=shape, unique_indices=mat.unique_indices)


@fill_docstring(BCOO_ENTRIES)
def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Join arrays along a dimension.

    Args: {operands, dimension}
    Returns:
      A BCOO array. Operands with different numbers of batch dimensions get those that all have.
    Raises:
      {TypeError, ValueError}
      NotImplementedError: the dimension is dense, or the numbers of dense dimensions differ.

    Source: JAX's function of this name.

    >>> x = BCOO.fromdense(np.array([0, 3]))
    >>> bcoo_concatenate([x, x], dimension=0).todense()
    Array([0, 3, 0, 3], dtype=int32)
    """
    call = "bcoo_concatenate"
    if not isinstance(operands, (list, tuple)) or not operands:
        raise ValueError(f"{call}: operands must be a sequence of BCOO arrays, at least one; got {operands!r:.60}")
    mats = [check_bcoo(call, "operands", mat) for mat in operands]
    (axis,) = _check_axes(call, "dimension", (dimension,), mats[0].ndim)
    if len({mat.shape[:axis] + (0,) + mat.shape[axis + 1:] for mat in mats}) > 1:
        raise ValueError(f"{call}: shapes must differ in dimension {axis} only; got {[mat.shape for mat in mats]}")
    d, b = mats[0].n_dense, min(mat.n_batch for mat in mats)
    mats = [flatten_batch(mat, b) for mat in mats]
    if any(mat.n_dense != d for mat in mats) or axis >= mats[0].ndim - d:
        raise NotImplementedError(f"{call}: operands must have the same number of dense dimensions, and dimension "
                                  f"{axis} must not be "
                                  "one. Use update_layout(n_dense=0) first")
    shape = mats[0].shape[:axis] + (sum(mat.shape[axis] for mat in mats),) + mats[0].shape[axis + 1:]
    sizes, nse = shape[b:len(shape) - d], max(mat.nse for mat in mats)
    is_batch, start, parts = axis < b, 0, []
    for mat in mats:
        data, indices = expand(mat.data, batch_shape(mat)), expand(mat.indices, batch_shape(mat))
        stored = is_stored(indices, sparse_shape(mat))
        if not is_batch:
            indices = indices + row_like(indices, [start if b + i == axis else 0 for i in range(len(sizes))])
            start += mat.shape[axis]
        data, indices = mask_padding(data, indices, stored, sizes)
        if is_batch and mat.nse < nse:
            more = nse - mat.nse
            data = lnp.pad(data, [(0, more if i == b else 0) for i in range(len(data.shape))])
            ends = lnp.broadcast_to(row_like(indices, sizes), (*mat.shape[:b], more, len(sizes)))
            indices = lnp.concatenate([indices, ends], b)
        parts.append((data, indices))
    joined = [lnp.concatenate(list(x), axis if is_batch else b) for x in zip(*parts, strict=True)]
    return BCOO((joined[0], joined[1]), shape=shape, unique_indices=all(mat.unique_indices for mat in mats))


@fill_docstring(BCOO_ENTRIES)
def bcoo_gather(operand: BCOO, start_indices: ArrayLike, dimension_numbers: Any, slice_sizes: Sequence[int], *,
                unique_indices: bool = False, indices_are_sorted: bool = False, mode: Any = None,
                fill_value: Any = None) -> BCOO:
    """Select slices of one size, as `lax.gather`.

    Args:
      operand: a BCOO array.
      start_indices: integers `[n, k]`: where each slice starts, in the dimensions of `start_index_map`.
      dimension_numbers: `lax.GatherDimensionNumbers` whose `offset_dims` are the last ones and without batching dimensions.
      slice_sizes: the sizes of the slices.
      unique_indices, indices_are_sorted: ignored.
      mode: 'clip' clamps the starts. In other modes slices that are not inside of `operand` are 0.
      fill_value: ignored.
    Returns:
      A BCOO array `[n, *slice]`; the first dimension is a batch dimension. It stores `nse` elements for each slice.
    Raises:
      TypeError: an argument has another type.
      NotImplementedError: the dimension numbers have another form.

    Source: JAX's function of this name.

    >>> from lamina_tracing import lax
    >>> numbers = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> bcoo_gather(BCOO.fromdense(np.eye(3)), np.array([[2], [0]]), numbers, (1, 3)).todense()
    Array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    mat, at = check_bcoo("bcoo_gather", "operand", operand), lnp.asarray(start_indices)
    numbers, sizes = dimension_numbers, check_sizes("bcoo_gather", "slice_sizes", slice_sizes)
    collapsed, rank = tuple(numbers.collapsed_slice_dims), len(at.shape) - 1
    offset = tuple(range(rank, rank + mat.ndim - len(collapsed)))
    is_known = tuple(numbers.offset_dims) == offset and rank == 1 and not numbers.operand_batching_dims
    if not is_known or any(sizes[a] != 1 for a in collapsed):
        raise NotImplementedError(f"bcoo_gather: dimension_numbers must have the offset_dims {offset} after one "
                                  f"dimension of slices, and "
                                  f"no batching dimensions; got {numbers} and start_indices of shape "
                                  f"{tuple(at.shape)}. Use todense()")
    limits = [mat.shape[a] - sizes[a] for a in numbers.start_index_map]
    is_clipped = mode is not None and lax.GatherScatterMode.from_any(mode) is lax.GatherScatterMode.CLIP
    batch = batch_shape(mat)
    mat = BCOO((expand(mat.data, batch), expand(mat.indices, batch)), shape=mat.shape, unique_indices=mat.unique_indices)

    def select(row: Value) -> BCOO:
        starts: list[Any] = [0] * mat.ndim
        for column, a in enumerate(numbers.start_index_map):
            starts[a] = lnp.maximum(row[column], 0)
        part = bcoo_squeeze(bcoo_dynamic_slice(mat, starts, sizes), dimensions=collapsed)
        inside = lnp.all((row >= 0) & (row <= np.asarray(limits, np.int32)))
        return part if is_clipped else part.replace_data(lnp.where(inside, part.data, lnp.zeros((), part.dtype)))
    return vmap(select)(at)
