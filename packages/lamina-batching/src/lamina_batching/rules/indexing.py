"""Batching rules of indexing primitives; results have the batch axis first.

If the indices are batched, the batch becomes a batching dimension of operand and indices. If only the operand is
batched, the batch is another axis of each window.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lamina_ir import Primitive, prims
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from lamina_ir.typing import Function, ParamValue, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ..extend import BatchAxis, materialise, move_axis
from ..tables import batching_rules

__all__: list[str] = []


def _shift(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + 1 for a in axes)


def _move_to_front(x: Value, dim: int | None, size: int) -> Value:
    return materialise(x, None, size) if dim is None else move_axis(x, dim, 0)


def gather_batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *,
                 dimension_numbers: GatherDimensionNumbers, slice_sizes: tuple[int, ...],
                 **p: ParamValue) -> tuple[Value, int]:
    (x, indices), (dx, di) = args, dims
    # Only the operand is batched: windows span its batch axis. Only the indices: there are more index vectors. Both: a
    # batching dimension, along which windows have length 1. The flags (sorted, unique) hold for the indices of one
    # example, so they are dropped where the indices of several examples are combined.
    offset, collapsed, index_map, x_batch, i_batch = dimension_numbers
    if di is None:
        x = _move_to_front(x, dx, axis.size)
        dims_ = GatherDimensionNumbers((0, *_shift(offset)), _shift(collapsed), _shift(index_map), _shift(x_batch), i_batch)
        sizes = (axis.size, *slice_sizes)
    elif dx is None:
        indices = move_axis(indices, di, 0)
        dims_ = GatherDimensionNumbers(_shift(offset), collapsed, index_map, x_batch, _shift(i_batch))
        sizes = slice_sizes
        p = {**p, "indices_are_sorted": False, "unique_indices": False}
    else:
        x, indices = move_axis(x, dx, 0), move_axis(indices, di, 0)
        dims_ = GatherDimensionNumbers(_shift(offset), _shift(collapsed), _shift(index_map), (0, *_shift(x_batch)),
                                       (0, *_shift(i_batch)))
        # A window must not be longer than its axis, which is empty for a batch of size 0.
        sizes = (min(axis.size, 1), *slice_sizes)
        p = {**p, "indices_are_sorted": False}
    return bind(prims.gather_p, x, indices, dimension_numbers=dims_, slice_sizes=sizes, **p), 0


def scatter_batch(prim: Primitive) -> Function:
    def batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *,
              dimension_numbers: ScatterDimensionNumbers, **p: ParamValue) -> tuple[Value, int]:
        x, indices, updates = args
        # The result is batched, so operand and updates are batched too. Unbatched indices write all examples at once.
        window, inserted, index_map, x_batch, i_batch = dimension_numbers
        x, updates = _move_to_front(x, dims[0], axis.size), _move_to_front(updates, dims[2], axis.size)
        if dims[1] is None:
            dims_ = ScatterDimensionNumbers((0, *_shift(window)), _shift(inserted), _shift(index_map), _shift(x_batch), i_batch)
        else:
            indices = move_axis(indices, dims[1], 0)
            dims_ = ScatterDimensionNumbers(_shift(window), _shift(inserted), _shift(index_map), (0, *_shift(x_batch)),
                                            (0, *_shift(i_batch)))
            p = {**p, "indices_are_sorted": False}
        return bind(prim, x, indices, updates, dimension_numbers=dims_, **p), 0
    return batch


def _stack_start_indices(starts: Sequence[Value], axes: Sequence[int], size: int) -> Value:
    """Return the start indices of all examples along `axes` as an array `[size, len(axes)]`."""
    found = [typeof(starts[a]).dtype for a in axes]
    dtype = np.result_type(np.uint32 if all(d.kind == "u" for d in found) else np.int32, *found)
    if dtype.kind == "f":  # NumPy promotes int64 and uint64 to float64: clip to int64 instead
        dtype, top = np.dtype("int64"), np.iinfo(np.int64).max
        starts = [lax.min(s, np.uint64(top)) if typeof(s).dtype == np.uint64 else s for s in starts]
    columns = [lax.broadcast_in_dim(s, (size, 1), (0,) if typeof(s).shape else ())
               for s in (lax.convert_element_type(starts[a], dtype) for a in axes)]
    return columns[0] if len(columns) == 1 else lax.concatenate(columns, 1)


def dynamic_slice_batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *,
                        slice_sizes: tuple[int, ...]) -> tuple[Value, int | None]:
    x, *starts = args
    dx = dims[0]
    if all(d is None for d in dims[1:]):
        x = _move_to_front(x, dx, axis.size)
        return bind(prims.dynamic_slice_p, x, 0, *starts, slice_sizes=(axis.size, *slice_sizes)), 0
    shape = typeof(x).shape if dx is None else typeof(x).shape[:dx] + typeof(x).shape[dx + 1:]
    axes = tuple(a for a, d in enumerate(shape) if slice_sizes[a] != d)  # along full axes the start is clamped to 0
    if not axes:
        return x, dx
    indices, window = _stack_start_indices(starts, axes, axis.size), tuple(range(1, len(shape) + 1))
    if dx is None:
        dims_, sizes = GatherDimensionNumbers(window, (), axes), tuple(slice_sizes)
    else:
        x = _move_to_front(x, dx, axis.size)
        dims_, sizes = GatherDimensionNumbers(window, (), _shift(axes), (0,), (0,)), (min(axis.size, 1), *slice_sizes)
    out = bind(prims.gather_p, x, indices, dimension_numbers=dims_, slice_sizes=sizes, fill_value=None,
               indices_are_sorted=False, unique_indices=dx is not None, mode=GatherScatterMode.CLIP)
    return out, 0


def dynamic_update_slice_batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None]) -> tuple[Value, int]:
    x, update, *starts = args
    x, update = _move_to_front(x, dims[0], axis.size), _move_to_front(update, dims[1], axis.size)
    if all(d is None for d in dims[2:]):
        return bind(prims.dynamic_update_slice_p, x, update, 0, *starts), 0
    shape, sizes = typeof(x).shape, typeof(update).shape
    # An index vector has one entry per axis that the window can move along.
    axes = tuple(a for a in range(len(starts)) if shape[a + 1] != sizes[a + 1])
    if not axes:
        return update, 0
    dims_ = ScatterDimensionNumbers(tuple(range(1, len(shape))), (), _shift(axes), (0,), (0,))
    out = bind(prims.scatter_p, x, _stack_start_indices(starts, axes, axis.size), update, dimension_numbers=dims_,
               indices_are_sorted=False, unique_indices=True, mode=GatherScatterMode.CLIP)
    return out, 0


batching_rules.define(prims.dynamic_slice_p, dynamic_slice_batch)
batching_rules.define(prims.dynamic_update_slice_p, dynamic_update_slice_batch)
batching_rules.define(prims.gather_p, gather_batch)
for _prim in (prims.scatter_p, prims.scatter_add_p, prims.scatter_mul_p, prims.scatter_min_p, prims.scatter_max_p):
    batching_rules.define(_prim, scatter_batch(_prim))
