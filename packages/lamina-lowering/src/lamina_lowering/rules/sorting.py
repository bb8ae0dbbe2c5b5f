"""Lowering of `sort` and `top_k` in NumPy's order: -0 equals 0, NaN is last, complex numbers are ordered by their
parts."""
from __future__ import annotations

import math

import numpy as np

from lamina_ir import dtypes, prims, shaped

from .._emit.rule_tables import lowering_rules
from .reductions import _slice
from .sort_keys import count_passes, read_positions, sort_part, split_key, take_along, unpack

__all__: list[str] = []

_BOOL = shaped((), dtypes.BOOL)
_I32 = shaped((), np.dtype("int32"))
# Bytes from which `top_k` runs row by row on CPUs; bytes of a row from which it is split into pieces; bytes of a
# group of rows.
_LARGE, _LONG, _PIECE = 1 << 17, 1 << 20, 1 << 14
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
    owner = getattr(x, "owner", None)
    if getattr(owner, "name", None) != "stablehlo.iota":
        return False
    return owner.attributes["iota_dimension"].value == dimension


def sort_lowering(ctx, *xs, dimension, is_stable, num_keys):
    aval = ctx.aval_in
    if aval.size > _FEW and len(xs) == 1 and dtypes.is_float(aval.dtype) and aval.dtype.itemsize > 1:
        return (_sort_floats(ctx, xs[0], dimension, is_stable),)  # dtypes with infinities
    if aval.size > _FEW and len(xs) > 1 and count_passes(ctx, ctx.avals_in[:num_keys]) <= _PASSES:
        return _sort_integers(ctx, xs, dimension, num_keys)
    return _sort_by_comparator(ctx, xs, dimension, is_stable, num_keys)


# --- top_k --------------------------------------------------------------------------------------------------------
def top_k_lowering(ctx, x, *, axis, k):
    aval, values = ctx.aval_in, ctx.avals_out[0]
    if aval.dtype == dtypes.BOOL:
        small = shaped(aval.shape, np.dtype("uint8"))
        made, where = _top_k(ctx, ctx.convert(x, aval, small), small, axis, k)
        return ctx.convert(made, shaped(values.shape, small.dtype), values), where
    return _top_k(ctx, x, aval, axis, k)


def _top_k(ctx, x, aval, axis, k):
    """Move the axis last, where `chlo.top_k` works."""
    order = [*(a for a in range(len(aval.shape)) if a != axis), axis]
    moved = shaped(tuple(aval.shape[a] for a in order), aval.dtype)
    if axis != len(order) - 1:
        x = ctx.op("stablehlo.transpose", (x,), moved, permutation=ctx.i64s(order))
    made = _top_k_last(ctx, x, moved, k)
    if axis == len(order) - 1:
        return made
    back = [order.index(a) for a in range(len(order))]
    final = (*aval.shape[:axis], k, *aval.shape[axis + 1:])
    return [ctx.op("stablehlo.transpose", (v,), shaped(final, d), permutation=ctx.i64s(back))
            for v, d in zip(made, (aval.dtype, _I32.dtype), strict=True)]


def _top_k_last(ctx, x, aval, k):
    """Emit `top_k` along the last axis; for large arrays in a loop over groups of rows, or over pieces of a row.

    `_plain_top_k` copies its operand without the signs of zeros and NaNs. In the loop that copy is small.
    """
    *front, n = aval.shape
    rows, row = math.prod(front), n * aval.dtype.itemsize
    if not dtypes.is_float(aval.dtype) or ctx.platform != "cpu" or not ctx.is_unpartitioned or rows * row < _LARGE or not k:
        return _plain_top_k(ctx, x, aval, k)
    flat = shaped((rows, n), aval.dtype)
    # A piece keeps k elements, so with 16 k elements or more at most 1/16 of the row is left for the second step.
    size = max(4 * _PIECE // aval.dtype.itemsize, 16 * k)
    x = ctx.reshape(x, flat)
    if n >= 2 * size and (rows == 1 or row >= _LONG):
        made = _top_k_of_pieces(ctx, x, flat, k, size)
    elif rows > 1:
        made = _loop_over_rows(ctx, x, flat, k, min(rows, max(1, _PIECE // row)), n)
    else:
        made = _plain_top_k(ctx, x, flat, k)
    return [ctx.reshape(v, a) for v, a in zip(made, _result_types(aval, k))]


def _result_types(aval, k):
    shape = (*aval.shape[:-1], k)
    return shaped(shape, aval.dtype), shaped(shape, _I32.dtype)


def _plain_top_k(ctx, x, aval, k):
    """Emit `chlo.top_k`, which orders floats by their bits, after removing the signs of zeros and NaNs."""
    if dtypes.is_float(aval.dtype):
        zero = ctx.const(0, aval)
        x = ctx.select(ctx.compare(x, zero, "EQ", aval), zero, x, aval)
        x = ctx.select(ctx.compare(x, x, "NE", aval), ctx.const(np.nan, aval), x, aval)
    return ctx.op("chlo.top_k", (x,), *_result_types(aval, k), k=k)


def _loop_over_rows(ctx, x, aval, k, count, size):
    """Loop over `count` rows at a time, or over pieces of `size` elements of one row.

    If `count` does not divide the number of rows, the last iteration repeats some. The results have shape `[rows, k]`,
    or one row for each piece, with positions counted from the start of the piece.
    """
    rows, n = aval.shape
    pieces = n // size
    whole, part = shaped((rows * pieces, size), aval.dtype), shaped((count, size), aval.dtype)
    outs = _result_types(whole, k)
    zero, last, many = ctx.const(0, _I32), ctx.const(rows * pieces - count, _I32), ctx.const(pieces, _I32)

    def has_next(ctx, i, *outs):
        return ctx.compare(i, ctx.const(rows * pieces, _I32), "LT", _I32)

    def step(ctx, i, *wholes):
        # The last iteration starts early enough to be complete. It repeats rows, with the same results.
        at, begin = ctx.op("stablehlo.minimum", (i, last), _I32), zero
        line = at
        if pieces > 1:  # slice the array itself: reshaping it into pieces first would be a copy
            line, begin = ctx.op("stablehlo.divide", (at, many), _I32), ctx.op("stablehlo.remainder", (at, many), _I32)
            begin = ctx.op("stablehlo.multiply", (begin, ctx.const(size, _I32)), _I32)
        lines = ctx.op("stablehlo.dynamic_slice", (x, line, begin), part, slice_sizes=ctx.i64s(part.shape))
        made = [ctx.op("stablehlo.dynamic_update_slice", (whole, v, at, zero), out)
                for whole, v, out in zip(wholes, _plain_top_k(ctx, lines, part, k), outs)]
        return ctx.op("stablehlo.add", (i, ctx.const(count, _I32)), _I32), *made

    start, types = (zero, *(ctx.const(0, a) for a in outs)), (_I32, *outs)
    return ctx.op("stablehlo.while", start, *types, regions=[ctx.region(types, has_next), ctx.region(types, step)])[1:]


def _top_k_of_pieces(ctx, x, aval, k, size):
    """Find the top k of long rows from the top k of their pieces and the remainder.

    Among equal elements the first is kept, because the pieces are in order.
    """
    rows, n = aval.shape
    count = n // size
    rest, several, places, each = (shaped(shape, d) for shape, d in (
        ((rows, n - count * size), aval.dtype), ((rows, count * k), aval.dtype), ((rows, count * k), _I32.dtype),
        ((rows, count, k), _I32.dtype)))
    whole, names = (shaped((rows, count * k + rest.shape[1]), d) for d in (aval.dtype, _I32.dtype))
    made, at = _loop_over_rows(ctx, x, aval, k, 1, size)
    # Positions in a piece become positions in the row.
    begins = ctx.op("stablehlo.multiply", (ctx.iota(each, 1), ctx.const(size, each)), each)
    at = ctx.reshape(ctx.op("stablehlo.add", (ctx.reshape(at, each), begins), each), places)
    made = ctx.reshape(made, several)
    if rest.shape[1]:
        made = ctx.op("stablehlo.concatenate", (made, _slice(ctx, x, [0, count * size], [rows, n], rest)), whole, dimension=1)
        ends = shaped(rest.shape, _I32.dtype)
        ends = ctx.op("stablehlo.add", (ctx.iota(ends, 1), ctx.const(count * size, ends)), ends)
        at = ctx.op("stablehlo.concatenate", (at, ends), names, dimension=1)
    values, chosen = _plain_top_k(ctx, made, whole, k)
    result, lines = shaped((rows, k), _I32.dtype), shaped((rows, k, 1), _I32.dtype)
    # The second top_k gives positions among the candidates; `at` has the position of each candidate in the row.
    numbers = ctx.op("stablehlo.concatenate", (ctx.iota(lines, 0), ctx.reshape(chosen, lines)),
                     shaped((rows, k, 2), _I32.dtype), dimension=2)
    found = ctx.op("stablehlo.gather", (at, numbers), result, dimension_numbers=ctx.attr(
        "#stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 2>"),
        slice_sizes=ctx.i64s([1, 1]), indices_are_sorted=False)
    return values, found


lowering_rules.define(prims.sort_p, sort_lowering)
lowering_rules.define(prims.top_k_p, top_k_lowering)
