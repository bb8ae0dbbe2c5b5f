"""Lowering of cumulative sums, products, maxima and minima.

On CPUs a cumulative sum of floats along a long last axis is a product of its blocks with a triangular matrix of ones,
because `reduce_window` is a scalar loop. Infinities and NaNs would spread in these products, to elements before them.
They also reach the sum of all elements. So if that sum is not finite, the program computes the common form.

Other cumulative operations on CPUs are a loop along the axis, which combines a vector with the next one. A long axis with few
vectors is divided into blocks, which the loop handles side by side.
"""
from __future__ import annotations

import math

import numpy as np

from lamina_ir import dtypes, prims, shaped
from lamina_ir.prims import highest, lowest

from .._emit.rule_tables import lowering_rules, platform_rules
from .reductions import _add, _slice, _max, _min, _mul, _one, _region, _scalar, _widen, _zero

__all__: list[str] = []

_BLOCK = 16
_TRIANGLE = 32  # elements of a block that is multiplied with a triangular matrix
_LOOP_LONG, _LOOP_MANY = 24, 1 << 10  # least length and number of elements for a loop, which takes longer to compile
_STEPS, _WIDE = 1024, 64  # most steps of a loop of vectors with fewer elements than `_WIDE`
_LONG, _MANY = 64, 1 << 14  # least length and least number of elements for products, which take longer to compile


def _make_cumulative(combine, identity):
    """Make a rule that combines blocks of 16 by `reduce_window`, then the blocks' totals recursively, then both.

    `reduce_window` takes quadratic time, so the blocks are short. On CPUs log2(n) shifted additions of the whole
    array take much longer.
    """
    def rule(ctx, x, *, axis, reverse):
        x, aval = _widen(ctx, x, combine)
        start = ctx.const(identity(aval.dtype), _scalar(aval))
        made = _cumulate(ctx, x, aval, axis, reverse, start, combine) if aval.shape[axis] > 1 and aval.size else x
        return ctx.convert(made, aval, ctx.aval_out)

    return rule


def _make_loop(combine, identity, prim):
    """Make the rule for CPUs."""
    def rule(ctx, x, *, axis, reverse):
        out = ctx.aval_out
        if out.shape[axis] < _LOOP_LONG or out.size < _LOOP_MANY or not ctx.is_unpartitioned:
            return lowering_rules[prim](ctx, x, axis=axis, reverse=reverse)
        x, aval = _widen(ctx, x, combine)
        if dtypes.is_float(aval.dtype) and aval.dtype.itemsize < 4:  # XLA would convert the whole array in each step
            wide = shaped(aval.shape, np.dtype(np.float32))
            x, aval = ctx.convert(x, aval, wide), wide
        start = ctx.const(identity(aval.dtype), _scalar(aval))
        return ctx.convert(_cumulate_in_loop(ctx, x, aval, axis, reverse, start, combine), aval, out)

    return rule


def _cumulate_in_loop(ctx, x, aval, axis, reverse, start, combine):
    """Combine each element with all elements before it along an axis, as `_cumulate`."""
    n = aval.shape[axis]
    if n <= _STEPS or aval.size // n >= _WIDE:
        return _loop(ctx, x, aval, axis, reverse, start, combine)
    inside, blocks = _split(ctx, x, aval, axis, start, min(_STEPS, math.isqrt(n)))
    inside = _loop(ctx, inside, blocks, axis + 1, reverse, start, combine)
    before, totals = _totals(ctx, inside, blocks, axis, reverse)
    before = _cumulate_in_loop(ctx, before, totals, axis, reverse, start, combine)
    return _join(ctx, before, inside, blocks, aval, axis, reverse, start, combine)


def _loop(ctx, x, aval, axis, reverse, start, combine):
    """Combine each element with all elements before it, one step after another, with the axis in front."""
    n, ndim = aval.shape[axis], len(aval.shape)
    order = [axis, *[a for a in range(ndim) if a != axis]]
    front, step = shaped(tuple([aval.shape[a] for a in order]), aval.dtype), shaped((), np.dtype(np.int32))
    line = shaped((1, *front.shape[1:]), aval.dtype)
    if axis:
        x = ctx.op("stablehlo.transpose", (x,), front, permutation=ctx.i64s(order))
    types = [step, line, front]

    def pass_on(ctx, i, total, values):
        place = ctx.op("stablehlo.subtract", (ctx.const(n - 1, step), i), step) if reverse else i
        at = place, *[ctx.const(0, step)] * (ndim - 1)
        here = ctx.op("stablehlo.dynamic_slice", (values, *at), line, slice_sizes=ctx.i64s(line.shape))
        total = combine(ctx, total, here, line)
        values = ctx.op("stablehlo.dynamic_update_slice", (values, total, *at), front)
        return ctx.op("stablehlo.add", (i, ctx.const(1, step)), step), total, values

    first = ctx.const(0, step), ctx.broadcast(start, _scalar(aval), line), x
    made = ctx.op("stablehlo.while", first, *types, regions=[
        ctx.region(types, lambda ctx, i, *_: ctx.compare(i, ctx.const(n, step), "LT", step)),
        ctx.region(types, pass_on)])[2]
    back = [order.index(a) for a in range(ndim)]
    return ctx.op("stablehlo.transpose", (made,), aval, permutation=ctx.i64s(back)) if axis else made


def _cumulate(ctx, x, aval, axis, reverse, start, combine):
    """Combine each element with all elements before it (after it if `reverse`) along an axis."""
    n = aval.shape[axis]
    if n <= _BLOCK:
        return _reduce_windows(ctx, x, aval, axis, reverse, start, combine)
    # The work is 16 n for the windows of all blocks, then that of n / 16 totals: 16 n (1 + 1/16 + 1/256 + ...).
    inside, blocks = _split(ctx, x, aval, axis, start, _BLOCK)
    inside = _reduce_windows(ctx, inside, blocks, axis + 1, reverse, start, combine)
    before, totals = _totals(ctx, inside, blocks, axis, reverse)
    before = _cumulate(ctx, before, totals, axis, reverse, start, combine)
    return _join(ctx, before, inside, blocks, aval, axis, reverse, start, combine)


def _split(ctx, x, aval, axis, start, size):
    """Pad with the identity to full blocks; return them and their type, with an axis of `size` after that of blocks."""
    n, shape = aval.shape[axis], aval.shape
    count = -(-n // size)
    blocks = shaped((*shape[:axis], count, size, *shape[axis + 1:]), aval.dtype)
    return ctx.reshape(_pad(ctx, x, start, axis, 0, count * size - n, aval), blocks), blocks


def _totals(ctx, inside, blocks, axis, reverse):
    """Return the total of each block: the last (or first) of the cumulative values in it."""
    first, limit, size = [0] * len(blocks.shape), list(blocks.shape), blocks.shape[axis + 1]
    first[axis + 1], limit[axis + 1] = (0, 1) if reverse else (size - 1, size)
    ends = shaped((*blocks.shape[:axis + 1], 1, *blocks.shape[axis + 2:]), blocks.dtype)
    totals = shaped((*blocks.shape[:axis + 1], *blocks.shape[axis + 2:]), blocks.dtype)
    return ctx.reshape(_slice(ctx, inside, first, limit, ends), totals), totals


def _join(ctx, before, inside, blocks, aval, axis, reverse, start, combine):
    """Combine the values in each block with the cumulative totals, and remove the padding."""
    shape, totals = aval.shape, shaped((*blocks.shape[:axis + 1], *blocks.shape[axis + 2:]), blocks.dtype)
    # Shift by one block: the combination of all blocks before this one.
    before = _pad(ctx, before, start, axis, *((-1, 1) if reverse else (1, -1)), totals)
    before = ctx.op("stablehlo.broadcast_in_dim", (before,), blocks, broadcast_dimensions=ctx.i64s(
        [a + (a > axis) for a in range(len(shape))]))
    whole = shaped((*shape[:axis], blocks.shape[axis] * blocks.shape[axis + 1], *shape[axis + 1:]), aval.dtype)
    made = ctx.reshape(combine(ctx, before, inside, blocks), whole)
    return made if whole.shape == shape else _slice(ctx, made, [0] * len(shape), shape, aval)


def _reduce_windows(ctx, x, aval, axis, reverse, start, combine):
    """Combine each element with all elements before it (after it if `reverse`) along a short axis."""
    ndim, n, scalar = len(aval.shape), aval.shape[axis], _scalar(aval)
    window, padding = [1] * ndim, np.zeros((ndim, 2), np.int64)
    # A window of n elements for each position, of which those before the axis begins are padding: the identity.
    window[axis], padding[axis] = n, (0, n - 1) if reverse else (n - 1, 0)
    ones = ctx.i64s([1] * ndim)
    return ctx.op("stablehlo.reduce_window", (x, start), aval, regions=[_region(combine, scalar)],
                  window_dimensions=ctx.i64s(window), window_strides=ones, base_dilations=ones, window_dilations=ones,
                  padding=ctx.matrix(padding))


def _pad(ctx, x, value, axis, low, high, aval):
    if not low and not high:
        return x
    zeros = [0] * len(aval.shape)
    lows, highs = list(zeros), list(zeros)
    lows[axis], highs[axis] = low, high
    return ctx.pad(x, value, aval, lows, highs, zeros)


# --- products with a triangular matrix --------------------------------------------------------------------------------
def cumsum_cpu(ctx, x, *, axis, reverse):
    out = ctx.aval_out
    last = len(out.shape) - 1
    if axis != last or out.shape[axis] < _LONG or out.size < _MANY or not dtypes.is_float(out.dtype) or (
            not ctx.is_unpartitioned):
        # A loop adds one after another, with larger roundings: only for sums without roundings.
        other = lowering_rules[prims.cumsum_p] if dtypes.is_inexact(out.dtype) else _cumsum_loop
        return other(ctx, x, axis=axis, reverse=reverse)
    x, aval = _widen(ctx, x, _add)
    start, flag = ctx.const(0, _scalar(aval)), shaped((), dtypes.BOOL)
    inside, blocks = _multiply_blocks(ctx, x, aval, reverse, start)
    before, totals = _totals(ctx, inside, blocks, last, reverse)
    before = _cumulate_by_products(ctx, before, totals, reverse, start)
    # The sums of whole lines.
    first, limit = [0] * len(totals.shape), list(totals.shape)
    first[last], limit[last] = (0, 1) if reverse else (limit[last] - 1, limit[last])
    sums = shaped((*totals.shape[:-1], 1), aval.dtype)
    finite = ctx.op("stablehlo.is_finite", (_slice(ctx, before, first, limit, sums),), shaped(sums.shape, dtypes.BOOL))
    finite = ctx.op("stablehlo.reduce", (finite, ctx.const(True, flag)), flag, dimensions=ctx.i64s(range(last + 1)),
                    regions=[ctx.reducer_region("stablehlo.and", flag)])

    def join(ctx):
        return _join(ctx, before, inside, blocks, aval, last, reverse, ctx.const(0, _scalar(aval)), _add)

    def compute(ctx):
        return _cumulate(ctx, x, aval, last, reverse, ctx.const(0, _scalar(aval)), _add)

    made = ctx.op("stablehlo.if", (finite,), aval, regions=[ctx.region((), join), ctx.region((), compute)])
    return ctx.convert(made, aval, out)


def _cumulate_by_products(ctx, x, aval, reverse, start):
    axis = len(aval.shape) - 1
    if aval.shape[axis] < _LONG or aval.size < _MANY:
        return _cumulate(ctx, x, aval, axis, reverse, start, _add)
    inside, blocks = _multiply_blocks(ctx, x, aval, reverse, start)
    before, totals = _totals(ctx, inside, blocks, axis, reverse)
    before = _cumulate_by_products(ctx, before, totals, reverse, start)
    return _join(ctx, before, inside, blocks, aval, axis, reverse, start, _add)


def _multiply_blocks(ctx, x, aval, reverse, start):
    """Return the cumulative sums in each block along the last axis, and the type of the blocks."""
    n = aval.shape[-1]
    # Blocks without padding save a copy.
    size = next((size for size in (_TRIANGLE, 16, 40, 24, 20) if n % size == 0), _TRIANGLE)
    split, blocks = _split(ctx, x, aval, len(aval.shape) - 1, start, size)
    flat, square = shaped((blocks.size // size, size), aval.dtype), shaped((size, size), aval.dtype)
    ones = np.tri(size, dtype=aval.dtype)
    made = ctx.op("stablehlo.dot_general", (ctx.reshape(split, flat), ctx.const(ones if reverse else ones.T, square)), flat,
                  dot_dimension_numbers=ctx.attr("#stablehlo.dot<lhs_contracting_dimensions = [1], "
                                                 "rhs_contracting_dimensions = [0]>"))
    return ctx.reshape(made, blocks), blocks


_cumsum_loop = _make_loop(_add, _zero, prims.cumsum_p)
lowering_rules.define(prims.cumsum_p, _make_cumulative(_add, _zero))
lowering_rules.define(prims.cumprod_p, _make_cumulative(_mul, _one))
lowering_rules.define(prims.cummax_p, _make_cumulative(_max, lowest))
lowering_rules.define(prims.cummin_p, _make_cumulative(_min, highest))
platform_rules("cpu").define(prims.cumsum_p, cumsum_cpu)
platform_rules("cpu").define(prims.cumprod_p, _make_loop(_mul, _one, prims.cumprod_p))
platform_rules("cpu").define(prims.cummax_p, _make_loop(_max, lowest, prims.cummax_p))
platform_rules("cpu").define(prims.cummin_p, _make_loop(_min, highest, prims.cummin_p))
