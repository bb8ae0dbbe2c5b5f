"""Lowering of collectives: one cross-replica operation whose groups come from the axis environment.

Groups of one participant need no communication and become reshapes and conversions.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from lamina_ir import ShapeError, ShapedArray, dtypes, prims, shaped
from lamina_ir.extend import check_axis_names, check_permutation, split_axis_names
from lamina_ir.prims import highest, lowest
from lamina_ir.typing import AxisName, Function, Value

from .._emit.rule_context import Context
from .._emit.rule_tables import lowering_rules
from .._typing import AttributeValue, IrValue, OpResults

__all__ = ["broadcast_from_one", "emit_all_gather"]

_I32 = shaped((), np.dtype("int32"))
_F32 = np.dtype("float32")
_JOINED_BYTES = 1 << 20  # larger operands are reduced separately: synchronizing once more costs less than a copy
_WIDE = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


def _get_groups(ctx: Context, axis_name: AxisName,
                index_groups: Sequence[Sequence[int]] | None = None,
                axis_size: int | None = None) -> tuple[list[list[int]], int]:
    """Return the groups and the size of the largest, which must be `axis_size` unless that is None."""
    # Groups of participants: members of the axes that differ only along the named ones, cut by `index_groups`.
    groups = ctx.axis_env.groups(check_axis_names(ctx.eqn.primitive.name, axis_name), index_groups)
    most = max(map(len, groups))
    if axis_size is not None and axis_size != most:
        raise ShapeError(f"{ctx.eqn.primitive.name}: axis_size {axis_size} must be the size of each group of devices; got "
                         f"groups of {most}")
    return groups, most


def _emit_collective(ctx: Context, name: str, xs: Sequence[IrValue], outs: Sequence[ShapedArray],
                     rows: Sequence[Sequence[int]], **attrs: AttributeValue) -> OpResults:
    return ctx.op(name, xs, *outs, attributes=ctx.collective_attrs(name, rows), **attrs)


def _sum_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which sums are communicated: floats narrower than 32 bits would be rounded at each step."""
    return _F32 if dtypes.is_float(dtype) and dtype not in _WIDE else dtype


def _reduce_local(ctx: Context, x: IrValue, aval: ShapedArray, op: str, identity: Value,
                  positions: Sequence[int]) -> tuple[IrValue, ShapedArray]:
    positions = sorted(positions)
    out = shaped(tuple(n for i, n in enumerate(aval.shape) if i not in positions), aval.dtype)
    start = ctx.const(identity, shaped((), aval.dtype))
    return ctx.op("stablehlo.reduce", (x, start), out, regions=[ctx.reducer_region(op, aval)],
                  dimensions=ctx.i64s(positions)), out


def _flip_bits(ctx: Context, bits: IrValue, aval: ShapedArray) -> IrValue:
    """Convert the bits of a float to an integer of the same order, or back: below zero, all bits except the sign are
    inverted."""
    # IEEE floats of one sign are ordered as their bits. Negative ones are in reverse, so bits ^ 0x7f..f turns them
    # around; the map is its own inverse.
    shift, low = aval.dtype.itemsize * 8 - 1, int(dtypes.iinfo(aval.dtype).max)
    sign = ctx.op("stablehlo.shift_right_arithmetic", (bits, ctx.const(shift, aval)), aval)
    turned = ctx.op("stablehlo.and", (sign, ctx.const(low, aval)), aval)
    return ctx.op("stablehlo.xor", (bits, turned), aval)


def _to_ordered_ints(ctx: Context, x: IrValue, aval: ShapedArray, nan: int) -> tuple[IrValue, ShapedArray]:
    """Convert floats to integers in the same order, with NaN as `nan`, the winning value.

    An all-reduce by max/min of floats would drop NaNs.
    """
    ints = shaped(aval.shape, np.dtype(f"int{aval.dtype.itemsize * 8}"))
    # A NaN may have either sign and any payload; all become the one integer that wins.
    bits = _flip_bits(ctx, ctx.op("stablehlo.bitcast_convert", (x,), ints), ints)
    return ctx.select(ctx.compare(x, x, "NE", aval), ctx.const(nan, ints), bits, ints), ints


def _from_ordered_ints(ctx: Context, x: IrValue, ints: ShapedArray, dtype: np.dtype,
                       nan: int) -> tuple[IrValue, ShapedArray]:
    aval = shaped(ints.shape, dtype)
    value = ctx.op("stablehlo.bitcast_convert", (_flip_bits(ctx, x, ints),), aval)
    return ctx.select(ctx.compare(x, ctx.const(nan, ints), "EQ", ints), ctx.const(np.nan, aval), value, aval), aval


def _make_all_reduce(op: str, bool_op: str, identity: Callable[[np.dtype], Value],
                     winner: Callable[[np.dtype], int] | None = None) -> Function:
    """Make a rule for psum, pmax or pmin: reduce by `op` over the groups, in float32 for narrower floats.

    With `winner(dtype)`, the max/min value of an integer dtype, floats are compared as integers.
    """
    def rule(ctx: Context, *xs: IrValue, axes: tuple[AxisName | int, ...],
             axis_index_groups: Sequence[Sequence[int]] | None = None) -> list[IrValue]:
        names, positions = split_axis_names(ctx.eqn.primitive.name, axes)
        groups, most = _get_groups(ctx, names, axis_index_groups)
        ready: list[tuple[IrValue, ShapedArray]] = []
        for x, aval, out in zip(xs, ctx.avals_in, ctx.avals_out, strict=True):
            work = shaped(aval.shape, _sum_dtype(out.dtype))
            x = ctx.convert(x, aval, work)
            if winner is not None and dtypes.is_float(work.dtype):
                x, work = _to_ordered_ints(ctx, x, work, winner(np.dtype(f"int{work.dtype.itemsize * 8}")))
            if positions:
                emit = bool_op if work.dtype == dtypes.BOOL else op
                x, work = _reduce_local(ctx, x, work, emit, identity(work.dtype), positions)
            ready.append((x, work))
        if most > 1:
            ready = _emit_all_reduces(ctx, ready, groups, op, bool_op)
        outs = []
        for (x, work), out in zip(ready, ctx.avals_out):
            if winner is not None and dtypes.is_float(out.dtype):
                x, work = _from_ordered_ints(ctx, x, work, _sum_dtype(out.dtype), winner(work.dtype))
            outs.append(ctx.convert(x, work, out))
        return outs
    return rule


def _emit_all_reduces(ctx: Context, operands: Sequence[tuple[IrValue, ShapedArray]], groups: list[list[int]], op: str,
                      bool_op: str) -> list[tuple[IrValue, ShapedArray]]:
    """Emit one all_reduce per dtype for all operands, so that the replicas synchronize once instead of once per
    operand.

    XLA's CPU backend still synchronizes once per buffer, so there small operands are concatenated into one buffer.
    """
    result = list(operands)
    # by_dtype: dtype -> indices of its operands. joined: the operands in one buffer; apart: the others.
    by_dtype: dict[np.dtype, list[int]] = {}
    for i, (_, work) in enumerate(operands):
        by_dtype.setdefault(work.dtype, []).append(i)
    for dtype, members in by_dtype.items():
        def reduce(xs: Sequence[IrValue], avals: Sequence[ShapedArray], dtype: np.dtype = dtype) -> OpResults:
            region = ctx.reducer_region(bool_op if dtype == dtypes.BOOL else op, avals[0])
            return _emit_collective(ctx, "stablehlo.all_reduce", xs, avals, groups, regions=[region])

        joined = [i for i in members if operands[i][1].size * dtype.itemsize <= _JOINED_BYTES]
        if ctx.platform != "cpu" or len(joined) < 2:
            joined = []
        apart = [i for i in members if i not in joined]
        if joined:
            flat = [shaped((operands[i][1].size,), dtype) for i in joined]
            whole = shaped((sum(a.shape[0] for a in flat),), dtype)
            pieces = [ctx.reshape(operands[i][0], a) for i, a in zip(joined, flat)]
            total = reduce((ctx.op("stablehlo.concatenate", pieces, whole, dimension=0),), (whole,))
            start = 0
            for i, a in zip(joined, flat):
                part = ctx.op("stablehlo.slice", (total,), a, start_indices=ctx.i64s([start]),
                              limit_indices=ctx.i64s([start + a.shape[0]]), strides=ctx.i64s([1]))
                result[i] = (ctx.reshape(part, operands[i][1]), operands[i][1])
                start += a.shape[0]
        if apart:
            sums = reduce([operands[i][0] for i in apart], [operands[i][1] for i in apart])
            for i, x in zip(apart, sums if len(apart) > 1 else (sums,)):
                result[i] = (x, operands[i][1])
    return result


def emit_all_gather(ctx: Context, x: IrValue, aval: ShapedArray, out: ShapedArray, names: Sequence[Hashable],
                    dimension: int, tiled: bool = False,
                    index_groups: Sequence[Sequence[int]] | None = None) -> IrValue:
    """Gather `x` of all group members along `dimension`: a new axis, or with `tiled` an existing one."""
    if 0 in out.shape:  # the operation takes no axis of length 0
        return ctx.const(0, out)
    groups, n = _get_groups(ctx, tuple(names), index_groups)
    if not tiled:
        aval = shaped((*aval.shape[:dimension], 1, *aval.shape[dimension:]), aval.dtype)
        x = ctx.reshape(x, aval)
    if n == 1:
        return x
    if ctx.axis_env.idle_participants:
        return ctx.op("stablehlo.concatenate", _gather_from_members(ctx, x, aval, groups), out, dimension=dimension)
    return _emit_collective(ctx, "stablehlo.all_gather", (x,), (out,), groups, all_gather_dim=dimension)


def _gather_from_members(ctx: Context, x: IrValue, aval: ShapedArray, groups: list[list[int]]) -> list[IrValue]:
    """Return the `x` of each member of this participant's group, if some participants are in no group.

    The exchange operations need groups of one size that include every participant. So the `x` of all participants is
    gathered, and those of the group are selected.
    """
    num_devices = ctx.module.partitions
    one, all_of = shaped((1, *aval.shape), aval.dtype), shaped((num_devices, *aval.shape), aval.dtype)
    # One group of all devices: the groups of the context would add the idle devices as one more.
    whole = ctx.op("stablehlo.all_gather", (ctx.reshape(x, one),), all_of, all_gather_dim=0,
                   attributes={**ctx.collective_attrs("stablehlo.all_gather", [[*range(num_devices)]]),
                               "replica_groups": ctx.matrix([[*range(num_devices)]])})
    mine: dict[int, list[int]] = {device: group for group in groups for device in group}
    zero = ctx.const(0, _I32)
    found = []
    for k in range(len(groups[0])):
        # A device without a group takes its own value; its result is not used.
        at = ctx.participant_entry([mine[device][k] if device in mine else device for device in range(num_devices)])
        row = ctx.op("stablehlo.dynamic_slice", (whole, at, *[zero] * aval.ndim), one, slice_sizes=ctx.i64s(one.shape))
        found.append(ctx.reshape(row, aval))
    return found


def broadcast_from_one(ctx: Context, x: IrValue, aval: ShapedArray, groups: list[list[int]]) -> IrValue:
    """Broadcast the `x` of the one participant of each group whose bits are not all zero, bit by bit."""
    if dtypes.is_complex(aval.dtype):
        part = shaped(aval.shape, dtypes.real_dtype(aval.dtype))
        halves = [broadcast_from_one(ctx, ctx.op(f"stablehlo.{name}", (x,), part), part, groups) for name in ("real", "imag")]
        return ctx.op("stablehlo.complex", halves, aval)
    bits = held = aval
    if dtypes.is_float(aval.dtype):
        bits = held = shaped(aval.shape, np.dtype(f"int{aval.dtype.itemsize * 8}"))
        x = ctx.op("stablehlo.bitcast_convert", (x,), bits)
    if held.dtype.itemsize < 4:  # not every collectives library can add narrower integers
        held = shaped(aval.shape, _I32.dtype)
        x = ctx.convert(x, bits, held)
    # x + 0 + ... + 0 on integers keeps all bits. On floats it would turn -0 into 0 and might change the bits of a
    # NaN.
    (x, _), = _emit_all_reduces(ctx, [(x, held)], groups, "stablehlo.add", "stablehlo.or")
    x = ctx.convert(x, held, bits)
    return x if bits is aval else ctx.op("stablehlo.bitcast_convert", (x,), aval)


def _slice_own_part(ctx: Context, x: IrValue, aval: ShapedArray, axis: int, groups: list[list[int]],
                    part: ShapedArray) -> IrValue:
    """Slice the part along an axis that has this participant's position in its group."""
    number = {device: k for group in groups for k, device in enumerate(group)}
    at = ctx.participant_entry([number.get(d, 0) * part.shape[axis] for d in range(ctx.module.partitions)])
    zero = ctx.const(0, _I32)
    return ctx.op("stablehlo.dynamic_slice", (x, *[at if a == axis else zero for a in range(aval.ndim)]), part,
                  slice_sizes=ctx.i64s(part.shape))


def all_gather_lowering(ctx: Context, x: IrValue, *, all_gather_dimension: int, axis_name: AxisName,
                        axis_index_groups: Sequence[Sequence[int]] | None, axis_size: int, tiled: bool) -> IrValue:
    _get_groups(ctx, axis_name, axis_index_groups, axis_size)
    return emit_all_gather(ctx, x, ctx.aval_in, ctx.aval_out, check_axis_names("all_gather", axis_name),
                           all_gather_dimension, tiled, axis_index_groups)


def psum_scatter_lowering(ctx: Context, x: IrValue, *, axis_name: AxisName,
                          axis_index_groups: Sequence[Sequence[int]] | None, axis_size: int, scatter_dimension: int,
                          tiled: bool) -> IrValue:
    groups, n = _get_groups(ctx, axis_name, axis_index_groups, axis_size)
    aval, out, d = ctx.aval_in, ctx.aval_out, scatter_dimension
    if 0 in out.shape:  # the operation takes no axis of length 0
        return ctx.const(0, out)
    # As for psum: the partial sums of a ring are rounded at each step.
    dtype = _sum_dtype(out.dtype)
    x = ctx.convert(x, aval, shaped(aval.shape, dtype))
    piece = shaped((*aval.shape[:d], aval.shape[d] // n, *aval.shape[d + 1:]), dtype)
    if n > 1 and ctx.axis_env.idle_participants:
        held = shaped(aval.shape, dtype)
        # A reduce_scatter must include every device, in groups of one size. An all-reduce takes groups of any size.
        (x, held), = _emit_all_reduces(ctx, [(x, held)], groups, "stablehlo.add", "stablehlo.or")
        x = _slice_own_part(ctx, x, held, d, groups, piece)
    elif n > 1:
        x = _emit_collective(ctx, "stablehlo.reduce_scatter", (x,), (piece,), groups, scatter_dimension=d, regions=[
            ctx.reducer_region("stablehlo.or" if dtype == dtypes.BOOL else "stablehlo.add", piece)])
    if not tiled:
        piece = shaped((*aval.shape[:d], *aval.shape[d + 1:]), dtype)
        x = ctx.reshape(x, piece)
    return ctx.convert(x, piece, out)


def all_to_all_lowering(ctx: Context, x: IrValue, *, axis_name: AxisName,
                        axis_index_groups: Sequence[Sequence[int]] | None, axis_size: int, split_axis: int,
                        concat_axis: int, tiled: bool) -> IrValue:
    """Emit an all_to_all. Untiled, the pieces are concatenated along an axis of length 1 inserted at the new position.
    """
    groups, n = _get_groups(ctx, axis_name, axis_index_groups, axis_size)
    aval, out = ctx.aval_in, ctx.aval_out
    shape = list(aval.shape)
    if not tiled:
        # `concat_axis` counts the dimensions of the result, which lacks the split axis. Here that axis is still there.
        if concat_axis <= split_axis:
            split_axis += 1
        else:
            concat_axis += 1
        shape.insert(concat_axis, 1)
        aval = shaped(tuple(shape), aval.dtype)
        x = ctx.reshape(x, aval)
    if n > 1 and ctx.axis_env.idle_participants:
        shape[split_axis] //= n
        own = shaped(tuple(shape), aval.dtype)
        rows = _gather_from_members(ctx, x, aval, groups)
        parts = [_slice_own_part(ctx, row, aval, split_axis, groups, own) for row in rows]
        shape[concat_axis] *= n
        x = ctx.op("stablehlo.concatenate", parts, shaped(tuple(shape), aval.dtype), dimension=concat_axis)
    elif n > 1:
        shape[split_axis] //= n
        shape[concat_axis] *= n
        x = _emit_collective(ctx, "stablehlo.all_to_all", (x,), (shaped(tuple(shape), aval.dtype),), groups,
                             split_count=n, split_dimension=split_axis, concat_dimension=concat_axis)
    return x if tiled else ctx.reshape(x, out)


def ppermute_lowering(ctx: Context, x: IrValue, *, axis_name: AxisName, perm: Sequence[Sequence[int]]) -> IrValue:
    """Emit a permutation. A participant that receives nothing gets zeros, as StableHLO defines."""
    groups, n = _get_groups(ctx, axis_name)
    perm = check_permutation("ppermute", n, perm, axis_name)
    if not perm:
        return ctx.const(0, ctx.aval_out)
    if n == len(perm) and all(s == d for s, d in perm):  # the identity, as when slots only move within devices
        return x
    pairs = [(group[s], group[d]) for group in groups for s, d in perm]  # per group: indices -> participants
    return _emit_collective(ctx, "stablehlo.collective_permute", (x,), (ctx.aval_out,), pairs)


def axis_index_lowering(ctx: Context, *, axis_name: AxisName) -> IrValue:
    names = check_axis_names("axis_index", axis_name)
    if not names:
        return ctx.const(0, _I32)
    # The first name is the slowest, as in the order of groups.
    index = ctx.axis_index(names[0])
    for name in names[1:]:
        index = ctx.op("stablehlo.multiply", (index, ctx.const(ctx.axis_env.axis_size((name,)), _I32)), _I32)
        index = ctx.op("stablehlo.add", (index, ctx.axis_index(name)), _I32)
    return index


lowering_rules.define(prims.psum_p, _make_all_reduce("stablehlo.add", "stablehlo.or", lambda d: 0))
lowering_rules.define(prims.pmax_p, _make_all_reduce("stablehlo.maximum", "stablehlo.or", lowest, highest))
lowering_rules.define(prims.pmin_p, _make_all_reduce("stablehlo.minimum", "stablehlo.and", highest, lowest))
lowering_rules.define(prims.all_gather_p, all_gather_lowering)
lowering_rules.define(prims.psum_scatter_p, psum_scatter_lowering)
lowering_rules.define(prims.all_to_all_p, all_to_all_lowering)
lowering_rules.define(prims.ppermute_p, ppermute_lowering)
lowering_rules.define(prims.axis_index_p, axis_index_lowering)
