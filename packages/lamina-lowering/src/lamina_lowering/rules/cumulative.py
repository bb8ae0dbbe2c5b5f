"""Lowering of cumulative sums, products, maxima and minima."""
from __future__ import annotations

import numpy as np

from lamina_ir import prims, shaped
from lamina_ir.prims import highest, lowest

from .._emit.rule_tables import lowering_rules
from .reductions import _add, _slice, _max, _min, _mul, _one, _region, _scalar, _widen, _zero

__all__: list[str] = []

_BLOCK = 16


def _make_cumulative(combine, identity):
    """Make a rule that combines blocks of 16 by `reduce_window`, then the blocks' totals recursively, then both.

    `reduce_window` takes quadratic time, so the blocks are short. On CPUs log2(n) shifted additions of the whole
    array take much longer.
    """
    def rule(ctx, x, *, axis, reverse):
        x, aval = _widen(ctx, x, combine)
        start = ctx.const(identity(aval.dtype), _scalar(aval))
        made = cumulate(ctx, x, aval, axis, reverse, start) if aval.shape[axis] > 1 and aval.size else x
        return ctx.convert(made, aval, ctx.aval_out)

    def cumulate(ctx, x, aval, axis, reverse, start):
        shape, n = aval.shape, aval.shape[axis]
        if n <= _BLOCK:
            return _reduce_windows(ctx, x, aval, axis, reverse, start, combine)
        # The work is 16 n for the windows of all blocks, then that of n / 16 totals: 16 n (1 + 1/16 + 1/256 + ...).
        count = -(-n // _BLOCK)
        whole = shaped((*shape[:axis], count * _BLOCK, *shape[axis + 1:]), aval.dtype)
        blocks = shaped((*shape[:axis], count, _BLOCK, *shape[axis + 1:]), aval.dtype)
        ends = shaped((*shape[:axis], count, 1, *shape[axis + 1:]), aval.dtype)
        totals = shaped((*shape[:axis], count, *shape[axis + 1:]), aval.dtype)
        # Pad with the identity to full blocks. inside: the cumulative values within each block, whose last (or
        # first) one is the block's total.
        inside = ctx.reshape(_pad(ctx, x, start, axis, 0, whole.shape[axis] - n, aval), blocks)
        inside = _reduce_windows(ctx, inside, blocks, axis + 1, reverse, start, combine)
        first, limit = [0] * len(blocks.shape), list(blocks.shape)
        first[axis + 1], limit[axis + 1] = (0, 1) if reverse else (_BLOCK - 1, _BLOCK)
        before = ctx.reshape(_slice(ctx, inside, first, limit, ends), totals)
        before = cumulate(ctx, before, totals, axis, reverse, start)
        # Shift by one block: the combination of all blocks before this one.
        before = _pad(ctx, before, start, axis, *((-1, 1) if reverse else (1, -1)), totals)
        before = ctx.op("stablehlo.broadcast_in_dim", (before,), blocks, broadcast_dimensions=ctx.i64s(
            [a + (a > axis) for a in range(len(shape))]))
        made = ctx.reshape(combine(ctx, before, inside, blocks), whole)
        return _slice(ctx, made, [0] * len(shape), shape, aval)
    return rule


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


lowering_rules.define(prims.cumsum_p, _make_cumulative(_add, _zero))
lowering_rules.define(prims.cumprod_p, _make_cumulative(_mul, _one))
lowering_rules.define(prims.cummax_p, _make_cumulative(_max, lowest))
lowering_rules.define(prims.cummin_p, _make_cumulative(_min, highest))
