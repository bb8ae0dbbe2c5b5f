"""Lowering of gather, scatter and dynamic slices.

StableHLO's `gather` clamps start indices itself, and its `scatter` skips windows that are out of bounds. So CLIP needs
extra operations only for scatter, and FILL_OR_DROP a mask only for gather.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lamina_ir import ShapedArray, dtypes, prims, shaped
from lamina_ir.prims import GatherScatterMode, gather_fill
from lamina_ir.typing import Value

from .._emit.rule_tables import lowering_rules
from .reductions import make_lexicographic
from .._emit.rule_context import Context
from .._typing import IrValue

__all__: list[str] = []

CLIP, FILL_OR_DROP = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP
_I32 = np.dtype("int32")
_BOOL = dtypes.BOOL


def _format_axes(kind: str, **axes: Sequence[int] | int) -> str:
    """Return `#stablehlo.gather<offset_dims = [1], index_vector_dim = 1>`; empty lists are left out."""
    parts = [f"{k} = {v}" if isinstance(v, int) else f"{k} = [{', '.join(map(str, v))}]"
             for k, v in axes.items() if isinstance(v, int) or v]
    return f"#stablehlo.{kind}<{', '.join(parts)}>"


# --- dynamic slices ----------------------------------------------------------------------------------------------


def _convert_starts(ctx: Context, starts: Sequence[IrValue], avals: Sequence[ShapedArray]) -> list[IrValue]:
    """Convert start indices to one type of at least 32 bits, as StableHLO requires."""
    found = {a.dtype for a in avals}
    if len(found) == 1 and next(iter(found)).itemsize >= 4:
        return list(starts)
    dtype = np.result_type(_I32, *(a.dtype if a.dtype.kind in "iu" else _I32 for a in avals))
    to = shaped((), dtype if dtype.kind in "iu" else np.dtype("int64"))
    if dtype.kind == "f":  # the result type of int64 and uint64
        # A start above the maximum of int64 is out of bounds either way, so it may become that maximum.
        starts = [ctx.op("stablehlo.minimum", (s, ctx.const(np.iinfo(np.int64).max, a)), a)
                  if a.dtype == np.uint64 else s for s, a in zip(starts, avals, strict=True)]
    return [ctx.convert(s, a, to) for s, a in zip(starts, avals, strict=True)]


def dynamic_slice_lowering(ctx: Context, x: IrValue, *starts: IrValue, slice_sizes: Sequence[int]) -> IrValue:
    if not starts:
        return x
    alike = _convert_starts(ctx, starts, ctx.avals_in[1:])
    return ctx.op("stablehlo.dynamic_slice", (x, *alike), ctx.aval_out, slice_sizes=ctx.i64s(slice_sizes))


def dynamic_update_slice_lowering(ctx: Context, x: IrValue, update: IrValue, *starts: IrValue) -> IrValue:
    if not starts:
        return update
    alike = _convert_starts(ctx, starts, ctx.avals_in[2:])
    return ctx.op("stablehlo.dynamic_update_slice", (x, update, *alike), ctx.aval_out)


# --- gather ------------------------------------------------------------------------------------------------------


def _compute_limits(x_aval: ShapedArray, sizes: Sequence[int], index_map: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Return the largest valid start of a window, for each component of an index vector."""
    # Indices of a narrow dtype cannot exceed its maximum, and the limit must be representable in it.
    top = np.iinfo(dtype).max
    return np.array([min(x_aval.shape[a] - sizes[a], top) for a in index_map], dtype)


def _widen_indices(ctx: Context, indices: IrValue, aval: ShapedArray) -> tuple[IrValue, IrValue]:
    if aval.dtype.kind in "iu" and aval.dtype.itemsize >= 4:
        return indices, aval
    to = shaped(aval.shape, _I32)
    return ctx.convert(indices, aval, to), to


def _broadcast_limits(ctx: Context, values: np.ndarray, aval: ShapedArray) -> IrValue:
    """Broadcast one value per component to the shape of the indices."""
    row = shaped(values.shape, aval.dtype)
    return ctx.broadcast(ctx.const(values, row), row, aval, (len(aval.shape) - 1,))


def _clamp_indices(ctx: Context, indices: IrValue, aval: ShapedArray, limits: np.ndarray) -> IrValue:
    zero = ctx.const(0, aval)
    return ctx.op("stablehlo.clamp", (zero, indices, _broadcast_limits(ctx, limits, aval)), aval)


def _mask_inside(ctx: Context, indices: IrValue, aval: ShapedArray, limits: np.ndarray) -> tuple[IrValue, IrValue]:
    """Emit which index vectors point to a window within bounds; also return the type of that mask."""
    flags = shaped(aval.shape, _BOOL)
    mask = ctx.compare(indices, _broadcast_limits(ctx, limits, aval), "LE", aval)
    if aval.dtype.kind == "i":
        above = ctx.compare(indices, ctx.const(0, aval), "GE", aval)
        mask = ctx.op("stablehlo.and", (mask, above), flags)
    out = shaped(aval.shape[:-1], _BOOL)
    if aval.shape[-1] == 1:
        return ctx.reshape(mask, out), out
    true = ctx.const(True, shaped((), _BOOL))
    made = ctx.op("stablehlo.reduce", (mask, true), out, dimensions=ctx.i64s((len(aval.shape) - 1,)),
                  regions=[ctx.reducer_region("stablehlo.and", flags)])
    return made, out


def gather_lowering(ctx: Context, x: IrValue, indices: IrValue, *, dimension_numbers: prims.GatherDimensionNumbers,
                    fill_value: Value, indices_are_sorted: bool, mode: prims.GatherScatterMode,
                    slice_sizes: Sequence[int], unique_indices: bool) -> IrValue:
    x_aval, i_aval = ctx.avals_in
    out = ctx.aval_out
    offset, collapsed, index_map, x_batch, i_batch = dimension_numbers
    if out.size == 0:
        return ctx.const(np.zeros(out.shape, out.dtype), out)
    indices, i_aval = _widen_indices(ctx, indices, i_aval)
    limits = _compute_limits(x_aval, slice_sizes, index_map, i_aval.dtype)
    # XLA may read unsigned starts as signed: a large one would be clamped to 0 instead of the end.
    if mode is CLIP and i_aval.dtype.kind == "u" and index_map:
        indices = _clamp_indices(ctx, indices, i_aval, limits)
    text = _format_axes("gather", offset_dims=offset, collapsed_slice_dims=collapsed, operand_batching_dims=x_batch,
                        start_indices_batching_dims=i_batch, start_index_map=index_map,
                        index_vector_dim=len(i_aval.shape) - 1)
    found = ctx.op("stablehlo.gather", (x, indices), out, dimension_numbers=ctx.attr(text),
                   slice_sizes=ctx.i64s(slice_sizes), indices_are_sorted=bool(indices_are_sorted))
    if mode is not FILL_OR_DROP or not index_map:
        return found
    # The operation has clamped these windows, so they contain other elements of the operand.
    mask, mask_aval = _mask_inside(ctx, indices, i_aval, limits)
    batch = [a for a in range(len(out.shape)) if a not in offset]
    if mask_aval.shape != out.shape:
        mask = ctx.op("stablehlo.broadcast_in_dim", (mask,), shaped(out.shape, _BOOL),
                      broadcast_dimensions=ctx.i64s(batch))
    return ctx.select(mask, found, ctx.const(gather_fill(out.dtype, fill_value), out), out)


# --- scatter -----------------------------------------------------------------------------------------------------


def scatter_lowering(combine: str | None, ordered: str | None = None) -> IrValue:
    """Make a rule with `combine` in the region; `ordered` (GT, LT) selects between complex numbers."""
    def rule(ctx: Context, x: IrValue, indices: IrValue, updates: IrValue, *,
             dimension_numbers: prims.ScatterDimensionNumbers, indices_are_sorted: bool, mode: prims.GatherScatterMode,
             unique_indices: bool) -> IrValue:
        x_aval, i_aval, u_aval = ctx.avals_in
        if x_aval.size == 0 or u_aval.size == 0:
            return x
        window, inserted, index_map, x_batch, i_batch = dimension_numbers
        indices, i_aval = _widen_indices(ctx, indices, i_aval)
        free = [a for a in range(len(x_aval.shape)) if a not in x_batch]
        # XLA's CPU compiler is wrong for several windows that all start at an implicit 0, so the 0 is made explicit
        if not index_map and free:
            index_map, i_aval = (free[0],), shaped((*i_aval.shape[:-1], 1), i_aval.dtype)
            indices = ctx.const(0, i_aval)
        if index_map and (mode is CLIP or i_aval.dtype.kind == "u"):
            lengths = iter([u_aval.shape[a] for a in window])
            sizes = [1 if a in inserted + x_batch else next(lengths) for a in range(len(x_aval.shape))]
            # Unsigned starts out of bounds remain so, but are clamped to the first invalid index: XLA may read them
            # as signed.
            past = 0 if mode is CLIP else 1
            indices = _clamp_indices(ctx, indices, i_aval, _compute_limits(x_aval, sizes, index_map, i_aval.dtype)
                                     + np.asarray(past, i_aval.dtype))
        text = _format_axes("scatter", update_window_dims=window, inserted_window_dims=inserted,
                            input_batching_dims=x_batch, scatter_indices_batching_dims=i_batch,
                            scatter_dims_to_operand_dims=index_map, index_vector_dim=len(i_aval.shape) - 1)
        scalar = shaped((), x_aval.dtype)
        if combine is None:
            region = ctx.region((scalar, scalar), lambda _, old, new: new)
        elif ordered is not None and dtypes.is_complex(x_aval.dtype):
            pick = make_lexicographic(ordered)
            region = ctx.region((scalar, scalar), lambda inner, old, new: pick(inner, old, new, scalar))
        else:
            region = ctx.reducer_region(combine, x_aval)
        return ctx.op("stablehlo.scatter", (x, indices, updates), ctx.aval_out, regions=[region],
                      scatter_dimension_numbers=ctx.attr(text), indices_are_sorted=bool(indices_are_sorted),
                      unique_indices=bool(unique_indices))
    return rule


lowering_rules.define(prims.dynamic_slice_p, dynamic_slice_lowering)
lowering_rules.define(prims.dynamic_update_slice_p, dynamic_update_slice_lowering)
lowering_rules.define(prims.gather_p, gather_lowering)
lowering_rules.define(prims.scatter_p, scatter_lowering(None))
lowering_rules.define(prims.scatter_add_p, scatter_lowering("stablehlo.add"))
lowering_rules.define(prims.scatter_mul_p, scatter_lowering("stablehlo.multiply"))
lowering_rules.define(prims.scatter_min_p, scatter_lowering("stablehlo.minimum", "LT"))
lowering_rules.define(prims.scatter_max_p, scatter_lowering("stablehlo.maximum", "GT"))
