"""Entries of sparse arrays: masks of padding, gathers and scatters at their indices, sorting, and joins of two arrays.

Here entries are flat: `data` is `[n, *dense]` and `indices` is `[n, k]`, with batch dimensions among the k.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

import lamina_numpy as lnp
import numpy as np
from lamina_ir import dtypes
from lamina_ir.typing import Value
from lamina_tracing import lax
from lamina_tracing.extend import EVALUATION, Tracer, trace_state, typeof

from ._types import BCOO

__all__ = ["batch_shape", "concrete_int", "dense_shape", "expand", "flatten_batch", "gather_rows", "is_known",
           "is_stored", "join", "mask_padding", "row_like", "scatter_rows", "sort_rows", "sparse_shape", "starts_of_runs",
           "take_columns"]

Shape = tuple[int, ...]


def batch_shape(mat: BCOO) -> Shape:
    return mat.shape[:mat.n_batch]


def sparse_shape(mat: BCOO) -> Shape:
    return mat.shape[mat.n_batch:mat.n_batch + mat.n_sparse]


def dense_shape(mat: BCOO) -> Shape:
    return mat.shape[mat.n_batch + mat.n_sparse:]


def expand(x: Value, lead: Shape) -> Value:
    """Broadcast the leading dimensions of `x` to these sizes."""
    return x if x.shape[:len(lead)] == lead else lnp.broadcast_to(x, lead + x.shape[len(lead):])


def concrete_int(x: Value) -> int | None:
    """Return a known integer, or None while it is traced."""
    return None if isinstance(x, Tracer) else int(x)


def row_like(indices: Value, values: Sequence[int]) -> np.ndarray:
    """Return a constant index with the dtype and the number of dimensions of `indices` `[..., k]`."""
    return np.asarray(values, typeof(indices).dtype).reshape((1,) * (len(indices.shape) - 1) + (len(values),))


def is_known(*mats: BCOO) -> bool:
    """Return whether the indices are concrete, so that results may have as many entries as there are."""
    return trace_state.trace is EVALUATION and not any(isinstance(mat.indices, Tracer) for mat in mats)


def is_stored(indices: Value, sizes: Shape) -> Value:
    """Return which entries `[..., n]` of `indices` `[..., n, k]` are inside of the shape; the others are padding."""
    if not sizes:
        return lnp.ones(indices.shape[:-1], bool)
    return lnp.all((indices >= 0) & (indices < row_like(indices, sizes)), axis=-1)


def _align_mask(mask: Value, data: Value) -> Value:
    return lnp.reshape(mask, mask.shape + (1,) * (len(data.shape) - len(mask.shape)))


def mask_padding(data: Value, indices: Value, stored: Value, sizes: Shape) -> tuple[Value, Value]:
    """Return entries whose padding has the data 0 and the index `sizes`."""
    data = lnp.where(_align_mask(stored, data), data, lnp.zeros((), typeof(data).dtype))
    return data, lnp.where(stored[..., None], indices, row_like(indices, sizes))


def flatten_batch(mat: BCOO, keep: int = 0) -> BCOO:
    """Make the batch dimensions after the first `keep` sparse ones."""
    if mat.n_batch <= keep:
        return mat
    batch, moved = batch_shape(mat), batch_shape(mat)[keep:]
    data, indices = expand(mat.data, batch), expand(mat.indices, batch)
    stored = is_stored(indices, sparse_shape(mat))
    columns = [lnp.broadcast_to(lnp.expand_dims(lax.iota(typeof(indices).dtype, n), tuple(range(1, len(moved) - i + 1))),
                                indices.shape[:-1]) for i, n in enumerate(moved)]
    indices = lnp.concatenate([lnp.stack(columns, -1), indices], -1)
    data, indices = mask_padding(data, indices, stored, moved + sparse_shape(mat))
    n = math.prod(moved) * mat.nse
    return BCOO((lnp.reshape(data, (*batch[:keep], n, *dense_shape(mat))),
                 lnp.reshape(indices, (*batch[:keep], n, indices.shape[-1]))), shape=mat.shape,
                indices_sorted=mat.indices_sorted and not keep and mat.nse == 0, unique_indices=mat.unique_indices)


def gather_rows(x: Value, indices: Value, fill: float = 0) -> Value:
    """Return `x[i0, i1, ...]` `[n, *rest]` for each row of `indices` `[n, k]`; `fill` outside of `x`."""
    n, k = indices.shape
    rest = tuple(x.shape[k:])
    if not k:
        return lnp.broadcast_to(x, (n, *rest))
    if not math.prod(x.shape[:k]):
        return lnp.full((n, *rest), fill, typeof(x).dtype)
    numbers = lax.GatherDimensionNumbers(tuple(range(1, len(rest) + 1)), tuple(range(k)), tuple(range(k)))
    return lax.gather(x, indices, numbers, (1,) * k + rest, mode="fill", fill_value=fill)


def scatter_rows(sizes: Shape, indices: Value, updates: Value) -> Value:
    """Return the sum `[*sizes, *rest]` of `updates` `[n, *rest]` at `indices` `[n, k]`; those outside are dropped."""
    dtype, rest = typeof(updates).dtype, tuple(updates.shape[1:])
    if dtypes.is_bool(dtype):
        return scatter_rows(sizes, indices, lnp.astype(updates, "int32")) != 0
    if not sizes:
        return lnp.sum(updates, 0, dtype=dtype)
    k = len(sizes)
    numbers = lax.ScatterDimensionNumbers(tuple(range(1, len(rest) + 1)), tuple(range(k)), tuple(range(k)))
    return lax.scatter_add(lnp.zeros(sizes + rest, dtype), indices, updates, numbers, mode="drop")


def sort_rows(indices: Value) -> tuple[Value, Value]:
    """Sort the rows of `indices` `[*batch, n, k]`; return them and the order `[*batch, n]`."""
    shape, k = tuple(indices.shape[:-1]), indices.shape[-1]
    order = lnp.broadcast_to(lax.iota(np.int32, shape[-1]), shape)
    if not k:
        return indices, order
    *columns, order = lax.sort([*[indices[..., i] for i in range(k)], order], dimension=len(shape) - 1, num_keys=k)
    return lnp.stack(columns, -1), order


def starts_of_runs(indices: Value) -> Value:
    """Return which rows of sorted `indices` `[*batch, n, k]` differ from the row before; the first does."""
    differs = lnp.any(indices[..., 1:, :] != indices[..., :-1, :], -1)
    first = lnp.ones((*differs.shape[:-1], min(1, indices.shape[-2])), bool)
    return lnp.concatenate([first, differs], -1)


def _group_numbers(left: Value, right: Value) -> tuple[Value, Value]:
    """Number the rows of two index arrays so that equal rows, and only those, have equal numbers."""
    rows = lnp.concatenate([left, right])
    ordered, order = sort_rows(rows)
    numbers = lnp.cumsum(lnp.astype(starts_of_runs(ordered), "int32")) - 1
    found = lnp.zeros(rows.shape[0], "int32").at[order].set(lnp.astype(numbers, "int32"))
    return found[:left.shape[0]], found[left.shape[0]:]


def join(left: Value, right: Value, left_stored: Value, right_stored: Value, bound: int) -> tuple[Value, Value, Value]:
    """Find the pairs of entries with equal keys.

    Args:
      left, right: keys `[n, k]` and `[m, k]`.
      left_stored, right_stored: which entries are not padding.
      bound: an upper bound of the number of pairs, used while the keys are traced.
    Returns:
      The positions of the pairs in both arrays, and which of these are pairs.
    """
    n, m = left.shape[0], right.shape[0]
    if not n or not m:
        none = lnp.zeros(0, "int32")
        return none, none, lnp.zeros(0, bool)
    left_group, right_group = _group_numbers(left, right)
    right_group = lnp.where(right_stored, right_group, n + m)  # padding comes last
    order = lnp.argsort(right_group)
    members = scatter_rows((n + m,), right_group[:, None], lnp.ones(m, "int32"))
    first = lnp.cumsum(members) - members
    count = lnp.where(left_stored, members[left_group], 0)
    ends = lnp.cumsum(count)
    total = concrete_int(ends[-1])
    size = bound if total is None else total
    slot = lax.iota(np.int32, size)
    i = lnp.minimum(lnp.searchsorted(ends, slot, side="right"), n - 1)
    j = order[lnp.clip(first[left_group[i]] + slot - (ends[i] - count[i]), 0, m - 1)]
    return i, j, slot < ends[-1]


def take_columns(indices: Value, columns: Sequence[int]) -> Value:
    """Return some columns of `indices` `[..., k]`."""
    if list(columns) == list(range(indices.shape[-1])):
        return indices
    return lnp.stack([indices[..., a] for a in columns], -1) if len(columns) else indices[..., :0]
