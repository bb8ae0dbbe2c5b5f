"""Lowering of window operations. Negative padding is emitted as a slice, because not every backend supports it in
windows."""
from __future__ import annotations

import numpy as np

from lamina_ir import dtypes, prims, shaped
from lamina_ir.prims import dilated_length, highest, lowest

from ..._emit.emitted_arrays import Array
from ..._emit.rule_tables import lowering_rules
from .max_pooling import can_select_by_position, scatter_by_position
from .shifted_windows import can_combine_shifted, combine_shifted
from ..reductions import _add, _max, _min, _mul, _one, _region, _widen, _zero

__all__: list[str] = []

_BOOL = shaped((), dtypes.BOOL)


def _split_padding(length, padding):
    """Return what padding removes at both ends (as negative numbers), and the padding that remains to be added."""
    low, high = (min(p, 0) for p in padding)
    if length + low + high > 0:
        return low, high, (max(padding[0], 0), max(padding[1], 0))
    # Nothing of the operand is left. Remove all of it, and pad to the length that the window operation expects.
    return -length, 0, (0, max(length + sum(padding), 0))


def _crop(ctx, xs, starts, avals, base_dilation, padding):
    """Dilate and crop operands if a padding is negative; also return the remaining padding and dilation."""
    if all(low >= 0 and high >= 0 for low, high in padding):
        return xs, avals, base_dilation, padding
    lengths = [dilated_length(n, b) for n, b in zip(avals[0].shape, base_dilation, strict=True)]
    lows, highs, padding = zip(*map(_split_padding, lengths, padding))
    shape = tuple(map(sum, zip(lengths, lows, highs)))
    # Negative padding cuts the dilated operand: it may begin between two elements. So the dilation is emitted first,
    # as interior padding.
    xs = [ctx.pad(x, s, a, lows, highs, [b - 1 for b in base_dilation])
          for x, s, a in zip(xs, starts, avals, strict=True)]
    return xs, [shaped(shape, a.dtype) for a in avals], (1,) * len(shape), padding


def _reduce_window(ctx, xs, starts, avals, outs, region, *, base_dilation, padding, window_dilation,
                   window_dimensions, window_strides):
    if not outs[0].size:
        found = [ctx.const(0, out) for out in outs]
        return found if len(outs) > 1 else found[0]
    if not avals[0].shape:
        return xs if len(xs) > 1 else xs[0]  # one window with one element; the initial values are neutral
    xs, avals, base_dilation, padding = _crop(ctx, xs, starts, avals, base_dilation, padding)
    return ctx.op("stablehlo.reduce_window", (*xs, *starts), *outs, regions=[region],
                  base_dilations=ctx.i64s(base_dilation), padding=ctx.matrix(padding),
                  window_dilations=ctx.i64s(window_dilation), window_dimensions=ctx.i64s(window_dimensions),
                  window_strides=ctx.i64s(window_strides))


def _reduction(combine, identity):
    def rule(ctx, x, **params):
        x, aval = _widen(ctx, x, combine)
        scalar, out = shaped((), aval.dtype), shaped(ctx.aval_out.shape, aval.dtype)
        if can_combine_shifted(ctx, out, params["window_dimensions"], params["window_strides"], params["padding"]):
            made = combine_shifted(ctx, Array(ctx, x, aval), out, combine, identity(aval.dtype), **params)
            return ctx.convert(made, out, ctx.aval_out)
        start = ctx.const(identity(aval.dtype), scalar)
        made = _reduce_window(ctx, [x], [start], [aval], [out], _region(combine, scalar), **params)
        return ctx.convert(made, out, ctx.aval_out)
    return rule


def reduce_window_lowering(ctx, *args, computation, **params):
    n = len(args) // 2
    scalars = [shaped((), a.dtype) for a in ctx.avals_in[:n]]
    region = ctx.region(scalars * 2, lambda ctx, *xs: ctx.inline(computation, xs))
    made = _reduce_window(ctx, args[:n], args[n:], ctx.avals_in[:n], ctx.avals_out, region, **params)
    return made if n > 1 else (made,)


def _is_kept(ctx, a, b, select, aval):
    """Return whether `a` is kept over `b`: it is at least as good, or NaN."""
    good = ctx.compare(a, b, "GE" if select == "ge" else "LE", aval)
    if not dtypes.is_inexact(aval.dtype):
        return good
    return ctx.op("stablehlo.or", (good, ctx.compare(a, a, "NE", aval)), _BOOL)


def select_and_gather_add_lowering(ctx, t, x, *, select, **params):
    """Emit a reduction of (operand, tangent, is element) that keeps the better element, and the earlier of equals.

    Padding may contain the lowest value, too, so the flag makes every element win against padding.
    """
    ta, xa = ctx.avals_in
    key, value, real = shaped((), xa.dtype), shaped((), ta.dtype), shaped(xa.shape, dtypes.BOOL)

    def pick(ctx, a, s, p, b, t, q):
        # p, q: whether the value is an element, not padding. a wins if it is an element and at least as good, or if b
        # is padding.
        better = ctx.op("stablehlo.and", (p, _is_kept(ctx, a, b, select, key)), _BOOL)
        left = ctx.op("stablehlo.or", (better, ctx.op("stablehlo.not", (q,), _BOOL)), _BOOL)
        return (ctx.select(left, a, b, key), ctx.select(left, s, t, value),
                ctx.op("stablehlo.or", (p, q), _BOOL))

    # The initial value counts as padding: its flag is False.
    starts = [ctx.const((lowest if select == "ge" else highest)(xa.dtype), key), ctx.const(0, value),
              ctx.const(False, _BOOL)]
    outs = shaped(ctx.aval_out.shape, xa.dtype), ctx.aval_out, shaped(ctx.aval_out.shape, dtypes.BOOL)
    region = ctx.region([key, value, _BOOL] * 2, pick)
    return _reduce_window(ctx, [x, t, ctx.const(True, real)], starts, [xa, ta, real], outs, region, **params)[1]


def select_and_scatter_add_lowering(ctx, source, x, *, padding, select, window_dimensions, window_strides):
    sa, xa = ctx.avals_in
    out, key = ctx.aval_out, shaped((), xa.dtype)
    if not out.shape or not sa.size:
        return source if not out.shape else ctx.const(0, out)
    # Overlapping windows add several times to one element; narrow floats would be rounded each time.
    wide = shaped((), np.dtype("float32") if dtypes.is_float(sa.dtype) and sa.dtype.itemsize < 4 else sa.dtype)
    source = ctx.convert(source, sa, shaped(sa.shape, wide.dtype))
    made = shaped(xa.shape, wide.dtype)
    # Elements that negative padding cuts off are in no window: their result is zero, which is padded back at the end.
    lows, highs, padding = zip(*map(_split_padding, xa.shape, padding))
    cut = any(lows) or any(highs)
    if cut:
        shape = tuple(map(sum, zip(xa.shape, lows, highs)))
        if 0 in shape:
            return ctx.const(0, out)
        x = ctx.op("stablehlo.slice", (x,), shaped(shape, xa.dtype), start_indices=ctx.i64s([-low for low in lows]),
                   limit_indices=ctx.i64s([n + high for n, high in zip(xa.shape, highs, strict=True)]),
                   strides=ctx.i64s([1] * len(shape)))
        xa, made = shaped(shape, xa.dtype), shaped(shape, wide.dtype)
    if xa.dtype.itemsize < 4 and dtypes.is_float(xa.dtype) and xa.dtype != wide.dtype:
        x, xa, key = ctx.convert(x, xa, made), made, wide  # widening keeps the order
    zero = ctx.const(0, wide)
    if can_select_by_position(ctx, xa, window_dimensions, window_strides):
        back = scatter_by_position(ctx, Array(ctx, source, shaped(sa.shape, wide.dtype)), Array(ctx, x, xa), padding,
                                   select, window_dimensions, window_strides)
        return back.pad([-low for low in lows], [-high for high in highs], [0] * len(lows)).convert(out.dtype).v
    chosen = ctx.region([key, key], lambda ctx, a, b: _is_kept(ctx, a, b, select, key))
    added = ctx.reducer_region("stablehlo.add", wide)
    # StableHLO selects and adds in one dtype.
    if xa.dtype == wide.dtype:
        back = ctx.op("stablehlo.select_and_scatter", (x, source, zero), made, regions=[chosen, added],
                      padding=ctx.matrix(padding), window_dimensions=ctx.i64s(window_dimensions),
                      window_strides=ctx.i64s(window_strides))
    else:
        back = _scatter_of_two_dtypes(ctx, source, x, sa, xa, made, padding, select, window_dimensions, window_strides)
    if cut:
        back = ctx.op("stablehlo.pad", (back, zero), shaped(out.shape, wide.dtype),
                      edge_padding_low=ctx.i64s([-low for low in lows]),
                      edge_padding_high=ctx.i64s([-high for high in highs]),
                      interior_padding=ctx.i64s([0] * len(lows)))
    return ctx.convert(back, shaped(out.shape, wide.dtype), out)


def _scatter_of_two_dtypes(ctx, source, x, sa, xa, made, padding, select, window_dimensions, window_strides):
    """Emit the operation for two dtypes, since StableHLO needs a single one.

    A reduction of pairs (operand, position) finds the selected positions, and a scatter adds to them.
    """
    place, key, value = shaped((), np.dtype("int32")), shaped((), xa.dtype), shaped((), made.dtype)
    size = xa.size
    # The row-major position of each element, so that one index selects it.
    flat = ctx.reshape(ctx.iota(shaped((size,), place.dtype), 0), shaped(xa.shape, place.dtype))

    def pick(ctx, a, i, b, j):
        # Position `size` denotes padding, which loses against every element.
        left = ctx.op("stablehlo.and", (_is_kept(ctx, a, b, select, key),
                                        ctx.compare(i, ctx.const(size, place), "LT", place)), _BOOL)
        left = ctx.op("stablehlo.or", (left, ctx.compare(j, ctx.const(size, place), "EQ", place)), _BOOL)
        return ctx.select(left, a, b, key), ctx.select(left, i, j, place)

    ones = (1,) * len(xa.shape)
    starts = [ctx.const((lowest if select == "ge" else highest)(xa.dtype), key), ctx.const(size, place)]
    where = shaped(sa.shape, place.dtype)
    _, chosen = _reduce_window(ctx, [x, flat], starts, [xa, shaped(xa.shape, place.dtype)],
                               [shaped(sa.shape, xa.dtype), where], ctx.region([key, place] * 2, pick),
                               base_dilation=ones, padding=padding, window_dilation=ones,
                               window_dimensions=window_dimensions, window_strides=window_strides)
    line, count = shaped((size,), made.dtype), sa.size
    numbers = "#stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
    back = ctx.op("stablehlo.scatter", (ctx.const(0, line), ctx.reshape(chosen, shaped((count, 1), place.dtype)),
                                        ctx.reshape(source, shaped((count,), made.dtype))), line,
                  regions=[ctx.reducer_region("stablehlo.add", value)], scatter_dimension_numbers=ctx.attr(numbers),
                  indices_are_sorted=False, unique_indices=False)
    return ctx.reshape(back, made)


lowering_rules.define(prims.reduce_window_sum_p, _reduction(_add, _zero))
lowering_rules.define(prims.reduce_window_prod_p, _reduction(_mul, _one))
lowering_rules.define(prims.reduce_window_max_p, _reduction(_max, lowest))
lowering_rules.define(prims.reduce_window_min_p, _reduction(_min, highest))
lowering_rules.define(prims.reduce_window_p, reduce_window_lowering)
lowering_rules.define(prims.select_and_gather_add_p, select_and_gather_add_lowering)
lowering_rules.define(prims.select_and_scatter_add_p, select_and_scatter_add_lowering)
