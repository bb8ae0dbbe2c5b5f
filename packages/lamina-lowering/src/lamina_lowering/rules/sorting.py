"""Lowering of `sort` in NumPy's order: -0 equals 0, NaN is last, complex numbers are ordered by their parts."""
from __future__ import annotations

import numpy as np

from lamina_ir import dtypes, prims, shaped

from .._emit.rule_tables import lowering_rules
from .sort_keys import count_passes, read_positions, sort_part, split_key, take_along, unpack

__all__: list[str] = []

_BOOL = shaped((), dtypes.BOOL)
_I32 = shaped((), np.dtype("int32"))
_PASSES = 2  # most sorts of integers that are faster than one sort with a comparator
_FEW = 256  # up to this size a custom comparator is about as fast, and compiles one kernel instead of four


def _or(ctx, x, y):
    return ctx.op("stablehlo.or", (x, y), _BOOL)


def _and(ctx, x, y):
    return ctx.op("stablehlo.and", (x, y), _BOOL)


def _split_key(ctx, x, y, aval):
    """Return the comparisons of a key, most significant first, as (x, y, aval) triples.

    For complex numbers, whether a part is NaN is compared before the parts.
    """
    if not dtypes.is_complex(aval.dtype):
        return [(x, y, aval)]
    part = shaped((), dtypes.real_dtype(aval.dtype))
    parts = [(ctx.op(f"stablehlo.{p}", (x,), part), ctx.op(f"stablehlo.{p}", (y,), part), part)
             for p in ("real", "imag")]
    # NumPy puts complex numbers with NaN last: those with a NaN in the imaginary part only before those with a NaN in
    # the real part.
    broken = [(ctx.compare(a, a, "NE", part), ctx.compare(b, b, "NE", part), _BOOL) for a, b, _ in parts]
    return broken + parts


def _is_below(ctx, x, y, aval):
    below = ctx.compare(x, y, "LT", aval)
    if not dtypes.is_float(aval.dtype):
        return below
    # x < y, or y is NaN and x is not: NaN is above all numbers. `x == x` is false for NaN.
    return _or(ctx, below, _and(ctx, ctx.compare(y, y, "NE", aval), ctx.compare(x, x, "EQ", aval)))


def _is_equal(ctx, x, y, aval):
    equal = ctx.compare(x, y, "EQ", aval)
    if not dtypes.is_float(aval.dtype):
        return equal
    # Two NaNs are equal here, so that the next key decides between them.
    return _or(ctx, equal, _and(ctx, ctx.compare(y, y, "NE", aval), ctx.compare(x, x, "NE", aval)))


def _sort_floats(ctx, x, dimension, is_stable):
    """Sort one float array with the comparator `a < b`.

    XLA has fast code for this comparator on CPUs: the row `sort` of benchmarks/run.py. NaNs are sorted as infinities;
    then as many trailing elements as there were NaNs are set to NaN.
    """
    aval, count = ctx.aval_in, _I32
    scalar, flags = shaped((), aval.dtype), shaped(aval.shape, dtypes.BOOL)
    counts = shaped(aval.shape, count.dtype)
    rows = shaped(tuple(n for a, n in enumerate(aval.shape) if a != dimension), count.dtype)
    broken = ctx.compare(x, x, "NE", aval)
    region = ctx.region([scalar, scalar], lambda ctx, a, b: ctx.compare(a, b, "LT", scalar))
    made = ctx.op("stablehlo.sort", (ctx.select(broken, ctx.const(np.inf, aval), x, aval),), aval, regions=[region],
                  dimension=dimension, is_stable=is_stable)
    # Numbers come first, infinities of replaced NaNs after all of them; infinities of the operand are equal to those.
    # So the first `good` elements are right.
    good = ctx.convert(ctx.op("stablehlo.not", (broken,), flags), flags, counts)
    good = _sum_rows(ctx, good, counts, rows, dimension)
    good = ctx.op("stablehlo.broadcast_in_dim", (good,), counts, broadcast_dimensions=ctx.i64s(
        [a for a in range(len(aval.shape)) if a != dimension]))
    keep = ctx.compare(ctx.iota(counts, dimension), good, "LT", counts)
    return ctx.select(keep, made, ctx.const(np.nan, aval), aval)


def _sum_rows(ctx, x, aval, rows, dimension):
    """Sum along one dimension.

    On CPUs XLA splits a sum into windows and writes out the operand for these. It does not split a reduction of two
    operands, so a second sum, of zeros, is added: one kernel without a copy. XLA would remove an unused second sum, so
    its result is added to the first.
    """
    scalar, axes = shaped((), aval.dtype), ctx.i64s([dimension])
    zero = ctx.const(0, scalar)
    if ctx.platform != "cpu" or not ctx.is_unpartitioned:
        return ctx.op("stablehlo.reduce", (x, zero), rows, dimensions=axes,
                      regions=[ctx.reducer_region("stablehlo.add", scalar)])
    pair = ctx.region([scalar] * 4, lambda ctx, a, b, c, d: tuple(
        ctx.op("stablehlo.add", two, scalar) for two in ((a, c), (b, d))))
    made, none = ctx.op("stablehlo.reduce", (x, ctx.const(0, aval), zero, zero), rows, rows, regions=[pair],
                        dimensions=axes)
    return ctx.op("stablehlo.add", (made, none), rows)


def _sort_by_comparator(ctx, xs, dimension, is_stable, num_keys):
    scalars = [shaped((), a.dtype) for a in ctx.avals_in]

    def before(ctx, *pairs):
        """Compare lexicographically: less in the first key, or equal in it and less in the next, ..."""
        steps = [step for k in range(num_keys) for step in _split_key(ctx, pairs[2 * k], pairs[2 * k + 1], scalars[k])]
        # From the last key to the first: (below_1) or (equal_1 and ((below_2) or (equal_2 and ...))).
        result = _is_below(ctx, *steps[-1])
        for step in reversed(steps[:-1]):
            result = _or(ctx, _is_below(ctx, *step), _and(ctx, _is_equal(ctx, *step), result))
        return result

    region = ctx.region([s for s in scalars for _ in range(2)], before)
    made = ctx.op("stablehlo.sort", xs, *ctx.avals_out, regions=[region], dimension=dimension, is_stable=is_stable)
    return made if len(xs) > 1 else (made,)


def _sort_integers(ctx, xs, dimension, num_keys):
    """Sort the keys as integers that hold positions, then read all operands at these positions."""
    avals = ctx.avals_in
    shape, order = avals[0].shape, None
    places, wide = shaped(shape, _I32.dtype), shaped(shape, np.dtype("int64"))
    parts = [part for x, aval in zip(xs[:num_keys], avals) for part in split_key(ctx, x, aval)]
    for part in reversed(parts):
        if order is not None:
            part, = take_along(ctx, [(part, wide)], order, shape, dimension)
        packed = sort_part(ctx, part, shape, dimension)
        now = read_positions(ctx, packed, shape)
        order = now if order is None else take_along(ctx, [(order, places)], now, shape, dimension)[0]
    made = []
    for k, (x, aval) in enumerate(zip(xs, avals, strict=True)):
        if k == 0 and len(parts) == 1 and not dtypes.is_float(aval.dtype):
            made.append(unpack(ctx, packed, aval))
        elif _is_iota(x, dimension) and dtypes.is_integer(aval.dtype):
            made.append(ctx.convert(order, places, aval))
        else:
            made += take_along(ctx, [(x, aval)], order, shape, dimension)
    return made


def _is_iota(x, dimension):
    """Return whether a value is the positions along an axis, as in `argsort`."""
    owner = x.owner  # the block, for an argument of a function
    return getattr(owner, "name", None) == "stablehlo.iota" and owner.attributes["iota_dimension"].value == dimension


def sort_lowering(ctx, *xs, dimension, is_stable, num_keys):
    aval = ctx.aval_in
    if aval.size > _FEW and len(xs) == 1 and dtypes.is_float(aval.dtype) and aval.dtype.itemsize > 1:
        return (_sort_floats(ctx, xs[0], dimension, is_stable),)  # dtypes with infinities
    if aval.size > _FEW and len(xs) > 1 and count_passes(ctx, ctx.avals_in[:num_keys]) <= _PASSES:
        return _sort_integers(ctx, xs, dimension, num_keys)
    return _sort_by_comparator(ctx, xs, dimension, is_stable, num_keys)


lowering_rules.define(prims.sort_p, sort_lowering)
