"""Lowering of `top_k`, in the order of `sort`. Among equal elements the first ones are kept.

`chlo.top_k` compares a whole row in a scalar loop. On CPUs it gets less than a row if the row is long: its pieces with
the k largest maxima contain the k largest elements, and the loop that computes maxima is vectorized.
"""
from __future__ import annotations

from math import isqrt, prod

import numpy as np

from lamina_ir import ShapedArray, dtypes, prims, shaped

from .._emit.emitted_arrays import Array, concatenate, loop
from .._emit.rule_context import Context
from .._emit.rule_tables import lowering_rules
from .._typing import IrValue
from .reductions import _max, _reduce
from .sort_keys import (count_passes, number_floats, read_positions, restore_floats, sort_part, split_key, take_along,
                        unpack)

__all__: list[str] = []

_I32, _I64 = np.dtype("int32"), np.dtype("int64")
_LARGE, _GROUP = 1 << 17, 1 << 14  # bytes from which `top_k` runs by groups of rows; bytes of a group
_LONG, _PIECE = 1 << 12, 64  # elements from which rows are split; fewest elements of a piece
_PART = 4  # a row has this many times the elements of the chosen pieces, at least
_FEW = 256  # elements up to which a sort with a comparator is about as fast


def top_k_lowering(ctx: Context, x: IrValue, *, axis: int, k: int) -> list[IrValue]:
    """Move the axis last, and join the others."""
    array = Array(ctx, x, ctx.aval_in)
    if array.aval.dtype == dtypes.BOOL:
        array = array.convert(np.dtype("uint8"))
    order = [*(a for a in range(len(array.shape)) if a != axis), axis]
    array = array.transpose(order)
    front = array.shape[:-1]
    back = [order.index(a) for a in range(len(order))]
    values, places = (v.reshape((*front, k)).transpose(back) for v in _top_k(ctx, array, k))
    return [values.convert(ctx.aval_in.dtype).v, places.v]


def _top_k(ctx: Context, x: Array, k: int) -> list[Array]:
    """Find the largest elements along the last axis."""
    rows, n = prod(x.shape[:-1]), x.shape[-1]
    if ctx.platform != "cpu" or not ctx.is_unpartitioned or not x.aval.size or not k:
        return _plain_top_k(ctx, x, k)
    size = _choose_piece(n, k)
    row = n * x.aval.dtype.itemsize
    if rows * row < _LARGE or (_PART * k * size > n and (rows == 1 or not dtypes.is_float(x.aval.dtype))):
        return _plain_top_k(ctx, x, k)
    x = x.reshape((rows, n))
    if n < _LONG or _PART * k * size > n:
        return _loop_over_rows(ctx, x, k, min(rows, max(1, _GROUP // row)))
    return _top_k_of_pieces(ctx, x, k, size)


def _choose_piece(n: int, k: int) -> int:
    """Return the length of pieces: that for which there are about as many of them as elements in k of them."""
    return max(_PIECE, 1 << isqrt(n // k).bit_length())


def _plain_top_k(ctx: Context, x: Array, k: int) -> list[Array]:
    """Emit `chlo.top_k`; for integers on CPUs, where XLA sorts with a comparator, a sort of integers."""
    aval, shape = x.aval, (*x.shape[:-1], k)
    outs = shaped(shape, aval.dtype), shaped(shape, _I32)
    if dtypes.is_float(aval.dtype):
        # It orders floats by their bits: zeros and NaNs lose their signs.
        zero, nan = Array.full(ctx, 0, x.shape, aval.dtype), Array.full(ctx, np.nan, x.shape, aval.dtype)
        x = zero.where(ctx.compare(x.v, zero.v, "EQ", aval), x)
        x = nan.where(ctx.compare(x.v, x.v, "NE", aval), x)
    elif aval.size > _FEW and count_passes(ctx, [aval]) == 1:
        return _sort_and_slice(ctx, x, k)
    made = ctx.op("chlo.top_k", (x.v,), *outs, k=k)
    return [Array(ctx, v, a) for v, a in zip(made, outs, strict=True)]


def _sort_and_slice(ctx: Context, x: Array, k: int) -> list[Array]:
    """Sort integers that hold the complement of a number, and its position."""
    def flip(v: IrValue, aval: ShapedArray) -> IrValue:
        return ctx.op("stablehlo.not", (v,), aval)

    wide, last = shaped(x.shape, _I64), len(x.shape) - 1
    part, = split_key(ctx, x.v, x.aval)
    made = Array(ctx, sort_part(ctx, flip(part, wide), x.shape, last), wide)
    made = made.slice([0] * len(x.shape), (*x.shape[:-1], k), [1] * len(x.shape))
    places = Array(ctx, read_positions(ctx, made.v, made.shape), shaped(made.shape, _I32))
    # The complement of all bits has the complement of the part in its upper half.
    values = shaped(made.shape, x.aval.dtype)
    return [Array(ctx, unpack(ctx, flip(made.v, made.aval), values), values), places]


def _loop_over_rows(ctx: Context, x: Array, k: int, count: int) -> list[Array]:
    """Loop over `count` rows at a time: `_plain_top_k` copies its operand, which is small in the loop.

    If `count` does not divide the number of rows, the last pass repeats some, with the same results.
    """
    rows, n = x.shape
    last = shaped((), _I32)
    start = [Array.full(ctx, 0, (rows, k), d) for d in (x.aval.dtype, _I32)]

    def body(ctx: Context, index: IrValue, *wholes: Array) -> list[Array]:
        at = ctx.op("stablehlo.multiply", (index, ctx.const(count, last)), last)
        at = ctx.op("stablehlo.minimum", (at, ctx.const(rows - count, last)), last)
        made = _plain_top_k(ctx, x.read(ctx, (at, 0), (count, n)), k)
        return [whole.write(v, (at, 0)) for whole, v in zip(wholes, made, strict=True)]

    return loop(ctx, -(-rows // count), start, body)


# --- pieces of a row --------------------------------------------------------------------------------------------------
def _top_k_of_pieces(ctx: Context, x: Array, k: int, size: int) -> list[Array]:
    """Find the largest elements among those of k pieces, and of the rest of the row.

    Pieces are compared by their largest elements, the first of equal ones. An element of another piece is less than
    these k elements, or equal and after them. The chosen pieces are in the order of the row, so that `top_k` of their
    elements keeps the first of equal ones.
    """
    rows, n = x.shape
    count = n // size
    chosen = _plain_top_k(ctx, _maxima(ctx, x, count, size), k)[1]
    firsts = _sort_ascending(ctx, chosen) * Array.full(ctx, size, (rows, k), _I32)
    parts = _read_pieces(ctx, x, firsts, size).reshape((rows, k * size))
    places = (firsts.broadcast((rows, k, size), (0, 1)) + Array.positions(ctx, (rows, k, size), 2)).reshape((rows, k * size))
    if count * size < n:
        rest = n - count * size
        parts = concatenate([parts, x.slice((0, count * size), (rows, rest), (1, 1))], 1)
        ends = Array.positions(ctx, (rows, rest), 1) + Array.full(ctx, count * size, (rows, rest), _I32)
        places = concatenate([places, ends], 1)
    values, at = _plain_top_k(ctx, parts, k)
    found, = take_along(ctx, [(places.v, places.aval)], at.v, at.shape, 1)
    return [values, Array(ctx, found, at.aval)]


def _maxima(ctx: Context, x: Array, count: int, size: int) -> Array:
    """Return the largest element of each piece; of floats without signs of zeros and NaNs."""
    rows, v, aval = x.shape[0], x.v, x.aval
    if dtypes.is_float(aval.dtype):  # the loop over integers is vectorized, and keeps NaNs
        v, aval = number_floats(ctx, v, aval)
    pieces = Array(ctx, v, aval).slice((0, 0), (rows, count * size), (1, 1)).reshape((rows, count, size))
    scalar, out = shaped((), aval.dtype), shaped((rows, count), aval.dtype)
    least = ctx.const(int(dtypes.iinfo(aval.dtype).min), scalar)
    made = _reduce(ctx, pieces.v, pieces.aval, least, out, _max, (2,))
    return Array(ctx, *(restore_floats(ctx, made, out) if dtypes.is_float(x.aval.dtype) else (made, out)))


def _sort_ascending(ctx: Context, x: Array) -> Array:
    scalar = shaped((), x.aval.dtype)
    region = ctx.region([scalar, scalar], lambda ctx, a, b: ctx.compare(a, b, "LT", scalar))
    return Array(ctx, ctx.op("stablehlo.sort", (x.v,), x.aval, regions=[region], dimension=1, is_stable=False), x.aval)


def _read_pieces(ctx: Context, x: Array, firsts: Array, size: int) -> Array:
    """Return the elements of rows from positions on: an array of rows, positions and `size` elements."""
    rows, k = firsts.shape
    starts = concatenate([Array.positions(ctx, (rows, k, 1), 0), firsts.reshape((rows, k, 1))], 2)
    out = shaped((rows, k, size), x.aval.dtype)
    numbers = "#stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0, 1], index_vector_dim = 2>"
    return Array(ctx, ctx.op("stablehlo.gather", (x.v, starts.v), out, dimension_numbers=ctx.attr(numbers),
                             slice_sizes=ctx.i64s((1, size)), indices_are_sorted=True), out)


lowering_rules.define(prims.top_k_p, top_k_lowering)
