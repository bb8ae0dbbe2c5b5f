"""Lowering of reductions. float16, bfloat16 and narrower floats are added and multiplied in float32."""
from __future__ import annotations

import math
from itertools import product

import numpy as np

from lamina_ir import dtypes, prims, shaped
from lamina_ir.prims import highest, lowest

from .._emit.rule_context import Region
from .._emit.rule_tables import lowering_rules, platform_rules

__all__: list[str] = []

_F32 = np.dtype("float32")
_BOOL = shaped((), dtypes.BOOL)
# most reduced elements that are unrolled on CPUs; elements from which the longer compile time pays off
_FEW, _MANY = 8, 4096
_LONG = 64  # elements from which two simple passes are faster than one over pairs
_LANES, _ROWS = 32, 32  # partial max/min values kept while a long row is reduced; elements per lane


def _scalar(aval):
    return shaped((), aval.dtype)


def make_lexicographic(direction):
    """Make a function that returns the larger (GT) or smaller (LT) of two complex numbers; NaN wins."""
    def pick(ctx, a, b, aval):
        part = shaped(aval.shape, dtypes.real_dtype(aval.dtype))
        flag = shaped(aval.shape, dtypes.BOOL)
        (ar, ai), (br, bi) = ([ctx.op(f"stablehlo.{p}", (v,), part) for p in ("real", "imag")] for v in (a, b))
        wins = ctx.op("stablehlo.and", (ctx.compare(ar, br, "EQ", part), ctx.compare(ai, bi, direction, part)), flag)
        wins = ctx.op("stablehlo.or", (ctx.compare(ar, br, direction, part), wins), flag)
        wins = ctx.op("stablehlo.or", (wins, ctx.compare(a, a, "NE", aval)), flag)
        return ctx.select(wins, a, b, aval)
    return pick


def _make_op(name):
    return lambda ctx, a, b, aval: ctx.op(name, (a, b), aval)


def _make_max_min(name, opposite, direction):
    """Make `maximum` or `minimum`; inside a region on CPUs it is the opposite of the negated floats.

    XLA passes `reduce` by `maximum` to a library (YNNPACK, seen with jaxlib 0.10.2) that drops NaNs. The library does
    not match the negated form.
    """
    complex_combine = make_lexicographic(direction)

    def combine(ctx, a, b, aval):
        if dtypes.is_complex(aval.dtype):
            return complex_combine(ctx, a, b, aval)
        if aval.shape or ctx.platform != "cpu" or not dtypes.is_float(aval.dtype):
            return ctx.op(name, (a, b), aval)
        a, b = (ctx.op("stablehlo.negate", (v,), aval) for v in (a, b))
        return ctx.op("stablehlo.negate", (ctx.op(opposite, (a, b), aval),), aval)
    return combine


_add, _mul = _make_op("stablehlo.add"), _make_op("stablehlo.multiply")
_max = _make_max_min("stablehlo.maximum", "stablehlo.minimum", "GT")
_min = _make_max_min("stablehlo.minimum", "stablehlo.maximum", "LT")
_PLAIN_OPS = {_max: "stablehlo.maximum", _min: "stablehlo.minimum"}


def _widen(ctx, x, combine):
    """Return the operand in the dtype of the reduction: float32 for sums and products of narrower floats."""
    aval = ctx.aval_in
    if combine in (_add, _mul) and dtypes.is_float(aval.dtype) and aval.dtype.itemsize < 4:
        wide = shaped(aval.shape, _F32)
        return ctx.convert(x, aval, wide), wide
    return x, aval


def _region(combine, scalar):
    return Region((scalar, scalar), lambda ctx, a, b: combine(ctx, a, b, scalar))


_BITS = {name: _make_op(f"stablehlo.{name}") for name in ("and", "or", "xor")}


def _replicate(ctx, x, aval):
    """Replicate the operand over the partitions.

    XLA's all-reduce between partitions on CPUs supports only sums, products, max/min, and `and` and `or` of booleans. A
    program that needs another one does not compile.
    """
    if ctx.is_unpartitioned or ctx.platform != "cpu":
        return x
    return ctx.op("stablehlo.custom_call", (x,), aval, call_target_name="Sharding",
                  attributes={"mhlo.sharding": "{replicated}"})


# --- reductions ---------------------------------------------------------------------------------------------------
def _reduce(ctx, x, aval, start, out, combine, axes):
    """Emit a reduction.

    XLA's all-reduce between partitions on CPUs supports max/min only as the plain operation, which may drop NaNs. So
    there the NaNs are restored by a second reduction.
    """
    scalar, plain, may_drop_nan = _scalar(aval), None, id(ctx.eqn) in ctx.module.nan_insensitive
    if not ctx.is_unpartitioned or may_drop_nan:
        plain = _PLAIN_OPS.get(combine) if dtypes.is_float(aval.dtype) else None
    elif ctx.platform == "cpu" and combine in _PLAIN_OPS and not dtypes.is_complex(aval.dtype):
        x, aval, axes = _reduce_in_lanes(ctx, x, aval, start, combine, axes)
    region, axes = ctx.reducer_region(plain, scalar) if plain else _region(combine, scalar), ctx.i64s(sorted(axes))
    made = ctx.op("stablehlo.reduce", (x, start), out, regions=[region], dimensions=axes)
    if may_drop_nan or not plain:
        return made
    # max/min with NaN restored: select(any(x != x), NaN, reduce(x)).
    found = ctx.op("stablehlo.reduce", (ctx.compare(x, x, "NE", aval), ctx.const(False, _BOOL)),
                   shaped(out.shape, dtypes.BOOL), regions=[ctx.reducer_region("stablehlo.or", _BOOL)], dimensions=axes)
    return ctx.select(found, ctx.const(np.nan, out), made, out)


def _reduce_in_lanes(ctx, x, aval, start, combine, axes):
    """Reduce long rows in part; return what remains to be reduced (value, type, axes).

    Each row is split into pieces with one partial max/min per lane of a piece. XLA vectorises the loop over lanes but
    not the one along a row, which takes several times as long. The end of a row is reduced twice, which
    changes no max/min. It covers the remainder that fills no piece, and prevents XLA from merging the two reductions.
    """
    num_kept, ndim = len(aval.shape), len(aval.shape)
    # The trailing reduced axes are contiguous in memory, so together they are one long row.
    while num_kept and num_kept - 1 in axes:
        num_kept -= 1
    length, front = math.prod(aval.shape[num_kept:]), aval.shape[:num_kept]
    other, pieces = [a for a in axes if a < num_kept], _choose_sides(max(1, length // (_LANES * _ROWS)))
    size, many = math.prod(pieces) * _LANES, len(pieces)
    rows = length // size
    if aval.size < _MANY:
        return x, aval, axes
    if num_kept == ndim:
        return _reduce_in_pieces(ctx, x, aval, start, combine, axes)
    # With one element per lane the first reduction would do nothing.
    if rows < 2:
        return x, aval, axes
    flat, bulk, split, end, one = (shaped((*front, *n), aval.dtype) for n in (
        [length], [rows * size], [*pieces, rows, _LANES], [size], [*pieces, 1, _LANES]))
    left = shaped((*(n for a, n in enumerate(front) if a not in other), *pieces, _LANES), aval.dtype)

    def reduce_(v, axes):
        return ctx.op("stablehlo.reduce", (v, start), left, regions=[_region(combine, _scalar(aval))],
                      dimensions=ctx.i64s(sorted(axes)))

    # The two parts overlap; max and min are idempotent, so an element may count twice.
    x, none = ctx.reshape(x, flat), [0] * num_kept
    made = reduce_(ctx.reshape(_slice(ctx, x, [*none, 0], bulk.shape, bulk), split), [*other, num_kept + many])
    last = ctx.reshape(_slice(ctx, x, [*none, length - size], flat.shape, end), one)
    made = combine(ctx, made, reduce_(last, [*other, num_kept + many]), left)
    return made, left, list(range(len(left.shape) - many - 1, len(left.shape)))


def _reduce_in_pieces(ctx, x, aval, start, combine, axes):
    """The same if the last axis is kept: its elements are the lanes.

    XLA would split the reduction itself, by windows, but would first write out the operand. There are more than 32
    pieces: with fewer, XLA merges the two reductions into one loop, whose accesses are not contiguous. The pieces are
    long enough that there are few partial results.
    """
    axis = max(axes, key=lambda a: aval.shape[a])
    length, front, back = aval.shape[axis], aval.shape[:axis], aval.shape[axis + 1:]
    pieces = max(_ROWS + 1, -(-length // _ROWS))
    rows = length // pieces
    # Only worth it with long pieces, and enough kept elements to fill the lanes.
    if rows < _ROWS // 2 or math.prod(back) < _LANES or len(axes) > 1:
        return x, aval, axes
    bulk, split, end, one, left = (shaped((*front, *n, *back), aval.dtype) for n in (
        [rows * pieces], [pieces, rows], [pieces], [pieces, 1], [pieces]))
    none = [0] * len(aval.shape)

    def reduce_(v):
        return ctx.op("stablehlo.reduce", (v, start), left, regions=[_region(combine, _scalar(aval))],
                      dimensions=ctx.i64s([axis + 1]))

    last = _slice(ctx, x, [*none[:axis], length - pieces, *none[axis + 1:]], aval.shape, end)
    made = combine(ctx, reduce_(ctx.reshape(_slice(ctx, x, none, bulk.shape, bulk), split)),
                   reduce_(ctx.reshape(last, one)), left)
    return made, left, axes


def _choose_sides(pieces):
    """Return the lengths of axes with at least `pieces` elements in total, each at most 32.

    XLA reduces along a longer axis by windows, whose operand is written out.
    """
    sides, axes = [], 1
    while _ROWS ** axes < pieces:
        axes += 1
    # As equal as possible: the side is the smallest n with n**left >= pieces, for the axes that are left.
    for left in range(axes, 0, -1):
        sides.append(next(n for n in range(1, _ROWS + 1) if n ** left >= pieces))
        pieces = -(-pieces // sides[-1])
    return sides


def _reduction(combine, identity):
    def rule(ctx, x, *, axes):
        if not axes:
            return x
        x, aval = _widen(ctx, x, combine)
        # Of these, XLA reduces only `and` and `or` of booleans between partitions (`_replicate`).
        if combine in _BITS.values() and (aval.dtype != dtypes.BOOL or combine is _BITS["xor"]):
            x = _replicate(ctx, x, aval)
        scalar, out = _scalar(aval), shaped(ctx.aval_out.shape, aval.dtype)
        made = _reduce(ctx, x, aval, ctx.const(identity(aval.dtype), scalar), out, combine, axes)
        return ctx.convert(made, out, ctx.aval_out)
    return rule


def _unroll_short(combine, rule):
    """Wrap a rule for CPUs: a short reduction with a long result combines the slices one by one.

    XLA vectorises the loop over the result but not the one over the reduced elements, which takes many times as
    long for sums of a few.
    """
    def short(ctx, x, *, axes):
        aval, out = ctx.aval_in, ctx.aval_out
        # The vectorised loop is over the result, so it must be long, and the reduction short.
        if not axes or out.size < _MANY or not 0 < aval.size <= _FEW * out.size:
            return rule(ctx, x, axes=axes)
        x, aval = _widen(ctx, x, combine)
        out = shaped(out.shape, aval.dtype)
        piece = shaped(tuple(1 if a in axes else n for a, n in enumerate(aval.shape)), aval.dtype)
        total = None
        for k in product(*(range(n if a in axes else 1) for a, n in enumerate(aval.shape))):
            limit = [i + 1 if a in axes else n for a, (i, n) in enumerate(zip(k, aval.shape, strict=True))]
            part = ctx.reshape(_slice(ctx, x, k, limit, piece), out)
            total = part if total is None else combine(ctx, total, part, out)
        return ctx.convert(total, out, ctx.aval_out)
    return short


def reduce_lowering(ctx, *args, computation, dimensions):
    n = len(args) // 2
    # A user function is no reduction that the all-reduce between partitions supports.
    operands = [*(_replicate(ctx, x, a) for x, a in zip(args[:n], ctx.avals_in)), *args[n:]]
    avals = [_scalar(a) for a in ctx.avals_in[:n]]
    region = ctx.region(avals * 2, lambda ctx, *xs: ctx.inline(computation, xs))
    made = ctx.op("stablehlo.reduce", operands, *ctx.avals_out, regions=[region], dimensions=ctx.i64s(sorted(dimensions)))
    return made if len(avals) > 1 else (made,)


# --- argmax, argmin -----------------------------------------------------------------------------------------------
def _make_arg_rule(direction, worst):
    """Make a rule that reduces pairs (value, position): the better value wins, NaN before all, then the lower position.
    """
    def rule(ctx, x, *, axes, index_dtype):
        aval, out = ctx.aval_in, ctx.aval_out
        value, place = _scalar(aval), shaped((), index_dtype)
        inexact = dtypes.is_inexact(aval.dtype)

        def pick(ctx, a, i, b, j):
            def both(p, q):
                return ctx.op("stablehlo.and", (p, q), _BOOL)

            def either(p, q):
                return ctx.op("stablehlo.or", (p, q), _BOOL)

            # A NaN is better than any number and equal to a NaN; of equal values the lower position wins. So the
            # order of pairs is total, and the compiler may combine them in any order.
            better, equal = _compare(ctx, a, b, direction, value)
            if inexact:
                a_nan, b_ok = ctx.compare(a, a, "NE", value), ctx.compare(b, b, "EQ", value)
                better = either(better, both(a_nan, b_ok))
                equal = either(equal, both(a_nan, ctx.compare(b, b, "NE", value)))
            left = either(better, both(equal, ctx.compare(i, j, "LT", place)))
            return ctx.select(left, a, b, value), ctx.select(left, i, j, place)

        places = ctx.iota(shaped(aval.shape, index_dtype), axes[0])
        region = ctx.region([value, place, value, place], pick)
        # The initial position is 0: a row whose elements all equal `worst` has its first element as result.
        start = ctx.const(worst(aval.dtype), value), ctx.const(0, place)
        return ctx.op("stablehlo.reduce", (x, places, *start), shaped(out.shape, aval.dtype), out, regions=[region],
                      dimensions=ctx.i64s(axes))[1]
    return rule


def _arg_two_passes(combine, worst, rule):
    """Wrap a rule for CPUs and long axes: first the max/min, then the lowest position that attains it (or is NaN).

    Both loops are vectorised, which one loop over pairs is not.
    """
    def long(ctx, x, *, axes, index_dtype):
        aval, out = ctx.aval_in, ctx.aval_out
        n = aval.shape[axes[0]]
        if n < _LONG or dtypes.is_complex(aval.dtype):
            return rule(ctx, x, axes=axes, index_dtype=index_dtype)
        value, place = _scalar(aval), shaped((), index_dtype)
        places, flags = shaped(aval.shape, index_dtype), shaped(aval.shape, dtypes.BOOL)
        best = _reduce(ctx, x, aval, ctx.const(worst(aval.dtype), value), shaped(out.shape, aval.dtype), combine, axes)
        best = ctx.op("stablehlo.broadcast_in_dim", (best,), aval, broadcast_dimensions=ctx.i64s(
            [a for a in range(len(aval.shape)) if a not in axes]))
        here = ctx.compare(x, best, "EQ", aval)
        if dtypes.is_float(aval.dtype):
            here = ctx.op("stablehlo.or", (here, ctx.compare(x, x, "NE", aval)), flags)
        # Positions without the value become n - 1, which is never below the lowest position that has it.
        where = ctx.select(here, ctx.iota(places, axes[0]), ctx.const(n - 1, places), places)
        return _reduce(ctx, where, places, ctx.const(n - 1, place), out, _min, axes)
    return long


def _compare(ctx, a, b, direction, aval):
    """Return (a <direction> b, a == b); complex numbers are compared lexicographically."""
    if not dtypes.is_complex(aval.dtype):
        return ctx.compare(a, b, direction, aval), ctx.compare(a, b, "EQ", aval)
    part = shaped((), dtypes.real_dtype(aval.dtype))
    (ar, ai), (br, bi) = ([ctx.op(f"stablehlo.{p}", (v,), part) for p in ("real", "imag")] for v in (a, b))
    tied = ctx.op("stablehlo.and", (ctx.compare(ar, br, "EQ", part), ctx.compare(ai, bi, direction, part)), _BOOL)
    return ctx.op("stablehlo.or", (ctx.compare(ar, br, direction, part), tied), _BOOL), ctx.compare(a, b, "EQ", aval)


def _slice(ctx, x, start, limit, aval):
    return ctx.op("stablehlo.slice", (x,), aval, start_indices=ctx.i64s(start), limit_indices=ctx.i64s(limit),
                  strides=ctx.i64s([1] * len(start)))


def _zero(d):
    return 0


def _one(d):
    return 1


def _ones(d):
    return True if d == dtypes.BOOL else -1 if d.kind == "i" else int(dtypes.iinfo(d).max)


for _prim, _combine, _identity in (
        (prims.reduce_sum_p, _add, _zero), (prims.reduce_prod_p, _mul, _one),
        (prims.reduce_max_p, _max, lowest), (prims.reduce_min_p, _min, highest),
        (prims.reduce_and_p, _BITS["and"], _ones), (prims.reduce_or_p, _BITS["or"], _zero),
        (prims.reduce_xor_p, _BITS["xor"], _zero)):
    lowering_rules.define(_prim, _reduction(_combine, _identity))
    platform_rules("cpu").define(_prim, _unroll_short(_combine, lowering_rules[_prim]))
lowering_rules.define(prims.reduce_p, reduce_lowering)
lowering_rules.define(prims.argmax_p, _make_arg_rule("GT", lowest))
lowering_rules.define(prims.argmin_p, _make_arg_rule("LT", highest))
platform_rules("cpu").define(prims.argmax_p, _arg_two_passes(_max, lowest, lowering_rules[prims.argmax_p]))
platform_rules("cpu").define(prims.argmin_p, _arg_two_passes(_min, highest, lowering_rules[prims.argmin_p]))
