"""Reading what a parsed index addresses: one slice for a box, else one gather of whatever index arrays name."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_ir.prims import gather_fill
from lamina_tracing import lax
from lamina_tracing.extend import EVALUATION, explicit_meshes, refuse_sharded, trace_state, typeof
from lamina_tracing.lax import GatherDimensionNumbers, GatherScatterMode

from .parse import FLAG, FULL, MANY, NEW, Plan, POINT, SLICE, STRIDED

__all__ = ["CLIP", "FILL", "broadcast_index_shapes", "count_from_front", "index_vectors", "keep_positions", "read",
           "replace_flags"]

CLIP, FILL = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP
_I32 = np.dtype("int32")


def count_from_front(index: Any, n: int) -> Any:
    """Positions that may count from the end, counted from the front, at least 32 bits wide."""
    if type(index) is int:
        return index
    if isinstance(index, np.ndarray):
        index = index.astype(_I32) if index.dtype.itemsize < 4 else index
        return np.where(index < 0, index + n, index) if index.dtype.kind == "i" else index
    dtype = typeof(index).dtype
    if dtype.kind != "i" and dtype.kind != "u" or dtype.itemsize < 4:
        index = lax.convert_element_type(index, _I32)
    return index if dtype.kind == "u" else lax.select(lax.lt(index, 0), lax.add(index, n), index)


def keep_positions(index: Any, n: int) -> Any:
    """Positions as they are."""
    return index


def index_vectors(columns: Sequence[Any], batch: tuple[int, ...], places: Sequence[Sequence[int] | None]) -> Any:
    """Positions along several axes as the index vectors of gather and scatter.

    Args:
      columns: an integer or integer array per addressed axis.
      batch: the shape they meet in.
      places: for each column, the axes of `batch` its own axes are; None for the last ones.
    Returns:
      Integer array `[*batch, len(columns)]`.
    """
    avals = [typeof(c) for c in columns]
    wide = [a.dtype for a in avals if not a.weak_type and a.dtype.kind in "iu" and a.dtype.itemsize >= 4]
    dtype = wide[0] if len(set(wide)) == 1 else dtypes.canonical_int() if wide else _I32
    out = []
    for column, aval, place in zip(columns, avals, places, strict=True):
        if type(column) is int:
            column = np.asarray(column, dtype)
        elif aval.dtype != dtype or aval.weak_type:
            column = lax.convert_element_type(column, dtype)
        if place is None:
            place = range(len(batch) - len(aval.shape), len(batch))
        out.append(lax.broadcast_in_dim(column, (*batch, 1), tuple(place)))
    return out[0] if len(out) == 1 else lax.concatenate(out, len(batch))


def broadcast_index_shapes(arrays: Sequence[Any]) -> tuple[int, ...]:
    """The shape index arrays broadcast to. IndexError when they do not."""
    shapes = [typeof(a).shape for a in arrays]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError("indexing: index arrays must broadcast to one shape; got "
                         + ", ".join(str(list(s)) for s in shapes)) from None


def replace_flags(plan: Plan, x: Any, positions: Sequence[Any]) -> tuple[tuple[Any, ...], Any, list[Any]]:
    """`x` with an axis of length 1 for each flag, and parts that index that axis with no or one position."""
    parts, at, found, new, axis = [], iter(positions), [], [], 0
    for part in plan.parts:
        if part[0] == FLAG:
            new.append(axis)
            found.append(np.zeros(part[1], _I32))
            part = (MANY,)
        elif part[0] in (SLICE, POINT, MANY):
            found.append(next(at))
        axis += part[0] != NEW
        parts.append(part)
    return tuple(parts), lax.expand_dims(x, new) if new else x, found


def _slice_window(x: Any, starts: list[Any], sizes: list[int], steps: list[int], flip: list[int]) -> Any:
    """The box of `x` at these starts; one static slice when they are known in a program being written."""
    shape = typeof(x).shape
    strided = any(s != 1 for s in steps)
    known = all(type(s) is int for s in starts)
    # Outside a program being written a static slice would be compiled anew for each start, a dynamic one is not.
    if known and (strided or trace_state.trace is not EVALUATION or not any(starts)):
        if strided or tuple(sizes) != shape:
            limits = [a + (n - 1) * s + 1 if n else a for a, n, s in zip(starts, sizes, steps, strict=True)]
            x = lax.slice(x, starts, limits, steps if strided else None)
    else:
        inner = [n if s == 1 else d for n, s, d in zip(sizes, steps, shape, strict=True)]
        moved = [0 if n == d else a for a, n, d in zip(starts, inner, shape, strict=True)]
        x = lax.dynamic_slice(x, moved, inner, allow_negative_indices=False)
        if strided:
            x = _slice_window(x, [0 if s == 1 else a for a, s in zip(starts, steps, strict=True)], sizes, steps, [])
    return lax.rev(x, flip) if flip else x


def read(plan: Plan, mode: GatherScatterMode, fill_value: Any, flags: tuple[bool, bool], wrap: bool, x: Any,
         *positions: Any) -> Any:
    """The elements of `x` that an index addresses.

    Args:
      plan, positions: as `parse` gives them.
      mode: what to read for positions outside.
      fill_value: for mode 'fill'.
      flags: promises: (positions ascend, positions differ).
      wrap: whether negative positions count from the end.
    """
    place = count_from_front if wrap else keep_positions
    if any(p[0] == FLAG for p in plan.parts):
        parts, x, rest = replace_flags(plan, x, positions)
    else:
        parts, rest = plan.parts, list(positions)
    shape = typeof(x).shape
    gathered = any(p[0] == MANY for p in parts) or (mode is FILL and not plan.inside)
    starts, sizes, steps, flip, gone = [], [], [], [], []
    many: list[tuple[int, Any]] = []
    at, axis = iter(rest), 0
    layout: list[Any] = []  # the result's axes in the order of the index: None is new, "one" indexed, else its length
    for part in parts:
        kind = part[0]
        if kind == NEW:
            layout.append(None)
            continue
        n = shape[axis]
        start, size, step = 0, n, 1
        if kind == SLICE:
            start, size = next(at), part[1]
        elif kind == STRIDED:
            start, size, step = part[1:]
            if step < 0:
                start, step = start + (size - 1) * step, -step
                flip.append(axis)
        elif kind != FULL:
            position = place(next(at), n)
            if gathered:
                many.append((axis, position))
            else:
                start, size = position, 1
                gone.append(axis)
        layout.append("one" if kind in (POINT, MANY) else size)
        starts.append(start)
        sizes.append(size)
        steps.append(step)
        axis += 1
    if gone and any(shape[a] == 0 for a in gone):
        raise IndexError(f"indexing: an axis of length 0 has no positions; the array has shape {list(shape)}")
    if explicit_meshes:
        refuse_sharded("indexing", x, [a for a, (n, size, start) in enumerate(zip(shape, sizes, starts))
                                       if n != size and a not in gone and type(start) is not int])
    x = _slice_window(x, starts, sizes, steps, flip)
    if gone:
        x = lax.squeeze(x, gone)
    if many:
        return _gather(x, many, layout, plan, mode, fill_value, flags)
    kept = [a for a in layout if a != "one"]
    new = [i for i, a in enumerate(kept) if a is None]
    return lax.expand_dims(x, new) if new else x


def _gather(x: Any, many: list[tuple[int, Any]], layout: list[Any], plan: Plan, mode: GatherScatterMode,
            fill_value: Any, flags: tuple[bool, bool]) -> Any:
    axes = tuple(a for a, _ in many)
    batch = broadcast_index_shapes([p for _, p in many])
    indices = index_vectors([p for _, p in many], batch, [None] * len(many))
    lead = 0  # axes before those of the index arrays
    if plan.joined:
        lead = next(i for i, a in enumerate(layout) if a == "one")
    kept = [a for a in layout if a != "one"]
    before, after = kept[:lead], kept[lead:]
    order = [*before, *("batch" for _ in batch), *after]  # the final axes
    read_order = [a for a in order if a is not None]
    offset = tuple(i for i, a in enumerate(read_order) if a != "batch")
    shape = typeof(x).shape
    out = lax.gather(x, indices, GatherDimensionNumbers(offset, axes, axes),
                     tuple(1 if a in axes else n for a, n in enumerate(shape)), mode=mode, fill_value=fill_value,
                     indices_are_sorted=flags[0] or plan.mask, unique_indices=flags[1] or plan.mask) \
        if all(shape[a] for a in axes) else _make_empty(x, read_order, batch, axes, fill_value, mode)
    new = [i for i, a in enumerate(order) if a is None]
    return lax.expand_dims(out, new) if new else out


def _make_empty(x: Any, order: list[Any], batch: tuple[int, ...], axes: tuple[int, ...], fill: Any, mode: Any) -> Any:
    """Reading from axes of length 0: no elements, or the fill value alone."""
    aval = typeof(x)
    if 0 not in batch and mode is not FILL and all(a == "batch" or a for a in order):
        raise IndexError(f"indexing: an axis of length 0 has no positions; got {aval.str_long()}")
    lengths = iter(batch)
    shape = tuple(next(lengths) if a == "batch" else a for a in order)
    return lax.broadcast_in_dim(gather_fill(aval.dtype, fill), shape, ())
