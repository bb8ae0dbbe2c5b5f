"""Sorts of 64-bit integers that hold a key and a position.

XLA's CPU compiler sorts one array of integers by a compiled function of its runtime. Any other sort calls the program's
comparator for each comparison, and moves all operands. So a sort by keys sorts integers: 32 bits of a key in the upper
half, the position in the lower one. These integers are different, so the sort is stable. Keys of more bits are sorted
by their parts, the least significant first.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

import numpy as np

from lamina_ir import ShapedArray, dtypes, shaped

from .._emit.rule_context import Context
from .._typing import IrValue

__all__ = ["count_passes", "number_floats", "read_positions", "restore_floats", "sort_part", "split_key", "take_along",
           "unpack"]

_F32, _I32, _I64 = np.dtype("float32"), np.dtype("int32"), np.dtype("int64")
_LARGE = 1 << 31  # elements from which positions do not fit into int32


def count_passes(ctx: Context, avals: Sequence[ShapedArray]) -> float:
    """Return the number of sorts for these keys; infinity if they cannot be sorted as integers."""
    if ctx.platform != "cpu" or not ctx.is_unpartitioned or not 0 < avals[0].size < _LARGE or any(
            dtypes.is_complex(a.dtype) for a in avals):
        return inf
    return sum(2 if a.dtype.itemsize > 4 else 1 for a in avals)


def number_floats(ctx: Context, x: IrValue, aval: ShapedArray) -> tuple[IrValue, ShapedArray]:
    """Return integers in the order of the floats, and their type: int64 for float64, else int32.

    Zeros of either sign are 0. All NaNs are the largest integer. The bits of a float are a sign and a magnitude, so the
    negative magnitude is the number of a negative float.
    """
    wide = shaped(aval.shape, aval.dtype if aval.dtype.itemsize >= 4 else _F32)
    bits = shaped(aval.shape, _I64 if wide.dtype.itemsize == 8 else _I32)
    top = int(np.iinfo(bits.dtype).max)
    infinity = int(np.asarray(np.inf, wide.dtype).view(bits.dtype))
    x = ctx.op("stablehlo.bitcast_convert", (ctx.convert(x, aval, wide),), bits)
    size = ctx.op("stablehlo.and", (x, ctx.const(top, bits)), bits)
    is_negative = ctx.compare(x, ctx.const(0, bits), "LT", bits)
    made = ctx.select(is_negative, ctx.op("stablehlo.negate", (size,), bits), size, bits)
    is_nan = ctx.compare(size, ctx.const(infinity, bits), "GT", bits)
    return ctx.select(is_nan, ctx.const(top, bits), made, bits), bits


def restore_floats(ctx: Context, x: IrValue, aval: ShapedArray) -> tuple[IrValue, ShapedArray]:
    """Return the float32 or float64 numbers that `number_floats` has numbered, and their type."""
    out = shaped(aval.shape, np.dtype("float64") if aval.dtype == _I64 else _F32)
    sign = ctx.const(np.iinfo(aval.dtype).min, aval)
    negative = ctx.op("stablehlo.or", (ctx.op("stablehlo.negate", (x,), aval), sign), aval)
    x = ctx.select(ctx.compare(x, ctx.const(0, aval), "LT", aval), negative, x, aval)
    return ctx.op("stablehlo.bitcast_convert", (x,), out), out


def split_key(ctx: Context, x: IrValue, aval: ShapedArray) -> list[IrValue]:
    """Return a key as arrays of int64 in the range of int32, the most significant first."""
    keys, wide = aval, shaped(aval.shape, _I64)
    if dtypes.is_float(aval.dtype):
        x, keys = number_floats(ctx, x, aval)
    x = ctx.convert(x, keys, wide)
    if keys.dtype == np.dtype("uint32"):
        x = ctx.op("stablehlo.subtract", (x, ctx.const(1 << 31, wide)), wide)
    elif keys.dtype == np.dtype("uint64"):
        x = ctx.op("stablehlo.xor", (x, ctx.const(np.iinfo(_I64).min, wide)), wide)
    if keys.dtype.itemsize <= 4:
        return [x]
    low = ctx.op("stablehlo.and", (x, ctx.const(0xFFFFFFFF, wide)), wide)
    return [ctx.op("stablehlo.shift_right_arithmetic", (x, ctx.const(32, wide)), wide),
            ctx.op("stablehlo.subtract", (low, ctx.const(1 << 31, wide)), wide)]


def sort_part(ctx: Context, x: IrValue, shape: tuple[int, ...], dimension: int) -> IrValue:
    """Sort a part of a key along an axis; return integers that hold the part and the position of each element."""
    wide, scalar = shaped(shape, _I64), shaped((), _I64)
    x = ctx.op("stablehlo.shift_left", (x, ctx.const(32, wide)), wide)
    x = ctx.op("stablehlo.or", (x, ctx.iota(wide, dimension)), wide)
    region = ctx.region([scalar, scalar], lambda ctx, a, b: ctx.compare(a, b, "LT", scalar))
    return ctx.op("stablehlo.sort", (x,), wide, regions=[region], dimension=dimension, is_stable=False)


def unpack(ctx: Context, packed: IrValue, aval: ShapedArray) -> IrValue:
    """Return the keys, integers of at most 32 bits or bools; floats cannot be restored, since zeros lose their signs."""
    wide = shaped(aval.shape, _I64)
    x = ctx.op("stablehlo.shift_right_arithmetic", (packed, ctx.const(32, wide)), wide)
    if aval.dtype == np.dtype("uint32"):
        x = ctx.op("stablehlo.add", (x, ctx.const(1 << 31, wide)), wide)
    return ctx.convert(x, wide, aval)


def read_positions(ctx: Context, packed: IrValue, shape: tuple[int, ...], dtype: np.dtype = _I32) -> IrValue:
    """Return the positions that sorted integers hold."""
    wide = shaped(shape, _I64)
    x = ctx.op("stablehlo.and", (packed, ctx.const(0xFFFFFFFF, wide)), wide)
    return ctx.convert(x, wide, shaped(shape, dtype))


def take_along(ctx: Context, arrays: Sequence[tuple[IrValue, ShapedArray]], positions: IrValue, shape: tuple[int, ...],
               dimension: int) -> list[IrValue]:
    """Return the elements of arrays at int32 positions of this shape along an axis."""
    places, source = shaped(shape, _I32), arrays[0][1].shape
    total = positions
    if len(shape) > 1:  # the position in memory
        total = None
        for a in range(len(source)):
            index, stride = positions if a == dimension else ctx.iota(places, a), prod(source[a + 1:])
            if stride > 1:
                index = ctx.op("stablehlo.multiply", (index, ctx.const(stride, places)), places)
            total = index if total is None else ctx.op("stablehlo.add", (total, index), places)
    column = ctx.reshape(total, shaped((prod(shape), 1), _I32))
    numbers = ctx.attr("#stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>")
    made = []
    for v, aval in arrays:
        flat, out = shaped((aval.size,), aval.dtype), shaped((prod(shape),), aval.dtype)
        v = ctx.op("stablehlo.gather", (ctx.reshape(v, flat), column), out, dimension_numbers=numbers,
                   slice_sizes=ctx.i64s([1]), indices_are_sorted=False)
        made.append(ctx.reshape(v, shaped(shape, aval.dtype)))
    return made
