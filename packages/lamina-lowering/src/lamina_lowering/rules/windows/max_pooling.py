"""The gradient of pooled maxima on CPUs, where XLA's `select_and_scatter` is a scalar loop.

Two vectorized loops replace it: over the windows, which finds the position of the selected element; and over the
elements, which adds the sources of the windows that select them. Both are written out for the positions in a window.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from lamina_ir import ShapedArray, dtypes, shaped
from lamina_ir.prims import dilated_length

from ..._emit.emitted_arrays import Array, loop, multiply_index
from ..._emit.rule_context import Context
from ..._typing import IrValue

__all__ = ["can_select_by_position", "scatter_by_position"]

_POSITIONS = 16  # most positions in a window, for the time to compile
_FEW = 4  # positions up to which XLA may copy the first loop into the second
_I32 = np.dtype("int32")


def can_select_by_position(ctx: Context, x: ShapedArray, window: Sequence[int],
                           padding: Sequence[tuple[int, int]]) -> bool:
    """Return whether `scatter_by_position` is the better form for an operand, and windows of these lengths."""
    count = prod(window)
    return ctx.platform == "cpu" and ctx.is_unpartitioned and not dtypes.is_complex(x.dtype) and (
        1 < count <= _FEW or (count <= _POSITIONS and window[0] == 1 and x.shape[0] > 1 and not any(padding[0])))


def scatter_by_position(ctx: Context, source: Array, x: Array, padding: Sequence[tuple[int, int]], select: str,
                        window: Sequence[int], strides: Sequence[int]) -> Array:
    """Add each source to the selected element of its window.

    Args:
      ctx: the lowering context.
      source: one number per window.
      x: the operand.
      padding: not negative, per axis.
      select: `ge` for maxima, `le` for minima; the first of equal elements is selected, and a NaN before numbers.
      window: its lengths.
      strides: the distances between windows.
    Returns:
      An array of the shape of x and the dtype of `source`.
    """
    lows = [low for low, _ in padding]
    padded = x.pad(lows, [high for _, high in padding], [0] * len(lows))
    places = list(np.ndindex(*window))
    # Per place: the position of the first window's element in x.
    firsts = [[p - low for p, low in zip(place, lows, strict=True)] for place in places]
    if len(places) <= _FEW:
        return _add_sources(ctx, source, _select(ctx, padded, x.shape, source.shape, places, firsts, select, strides),
                            firsts, x.shape, strides)
    # Examples are selected one by one, in a loop: XLA would copy a single loop into the sum for each place.
    counts, rest = (1, *source.shape[1:]), [0] * (len(lows) - 1)

    def body(ctx: Context, index: IrValue, numbers: Array) -> list[Array]:
        one = padded.read(ctx, [multiply_index(ctx, index, strides[0]), *rest], (1, *padded.shape[1:]))
        number = _select(ctx, one, (1, *x.shape[1:]), counts, places, firsts, select, strides)
        return [numbers.write(number, [index, *rest])]

    numbers, = loop(ctx, source.shape[0], [Array.full(ctx, -1, source.shape, _I32)], body)
    return _add_sources(ctx, source, numbers, firsts, x.shape, strides)


def _select(ctx: Context, padded: Array, shape: Sequence[int], counts: Sequence[int], places: Sequence[Sequence[int]],
            firsts: Sequence[Sequence[int]], select: str, strides: Sequence[int]) -> Array:
    """Return per window the number of the place of the selected element; -1 if all of it is padding."""
    best = number = None
    none = Array.full(ctx, -1, counts, _I32)
    for k, (place, first) in enumerate(zip(places, firsts, strict=True)):
        part, own = padded.slice(place, counts, strides), Array.full(ctx, k, counts, _I32)
        inside = _is_inside(ctx, shape, counts, first, strides)
        if best is None or number is None:
            best, number = part, own if inside is None else own.where(inside, none)
            continue
        better = _is_better(ctx, part, best, select)
        if tuple(shape) != padded.shape:
            nothing = ctx.compare(number.v, none.v, "EQ", number.aval)
            better = _combine(ctx, "stablehlo.or", better, nothing, counts)
        if inside is not None:
            better = _combine(ctx, "stablehlo.and", better, inside, counts)
        best, number = part.where(better, best), own.where(better, number)
    assert number is not None
    return number


def _is_inside(ctx: Context, shape: Sequence[int], counts: Sequence[int], first: Sequence[int],
               strides: Sequence[int]) -> IrValue | None:
    """Return bools per window: whether its element at the place is in x, not in the padding; None if all are.

    `first` is the position in x of the first window's element.
    """
    made = None
    for a, (n, count, start, stride) in enumerate(zip(shape, counts, first, strides, strict=True)):
        tests = [(-start, "GE")] if start < 0 else []
        tests += [(n - start, "LT")] if start + (count - 1) * stride >= n else []
        if tests:
            line = shaped((count,), _I32)
            at = ctx.op("stablehlo.multiply", (ctx.iota(line, 0), ctx.const(stride, line)), line)
        for bound, direction in tests:
            test = Array(ctx, ctx.compare(at, ctx.const(bound, line), direction, line), shaped((count,), dtypes.BOOL))
            test = test.broadcast(counts, (a,))
            made = test.v if made is None else _combine(ctx, "stablehlo.and", made, test.v, counts)
    return made


def _is_better(ctx: Context, x: Array, y: Array, select: str) -> IrValue:
    """Return whether x is selected over the earlier element y: it is better, or the first NaN."""
    if not dtypes.is_float(x.aval.dtype):
        return ctx.compare(x.v, y.v, "GT" if select == "ge" else "LT", x.aval)
    kept = ctx.compare(y.v, x.v, "GE" if select == "ge" else "LE", x.aval)
    kept = _combine(ctx, "stablehlo.or", kept, ctx.compare(y.v, y.v, "NE", y.aval), x.shape)
    return ctx.op("stablehlo.not", (kept,), shaped(x.shape, dtypes.BOOL))


def _combine(ctx: Context, name: str, p: IrValue, q: IrValue, shape: Sequence[int]) -> IrValue:
    return ctx.op(name, (p, q), shaped(tuple(shape), dtypes.BOOL))


def _add_sources(ctx: Context, source: Array, number: Array, firsts: Sequence[Sequence[int]], shape: Sequence[int],
                 strides: Sequence[int]) -> Array:
    """Add the source of each window to the element at its selected place."""
    zero, total = Array.full(ctx, 0, source.shape, source.aval.dtype), None
    for k, first in enumerate(firsts):
        chosen = ctx.compare(number.v, ctx.const(k, number.aval), "EQ", number.aval)
        rest = [n - f - dilated_length(c, s) for n, f, c, s in zip(shape, first, source.shape, strides, strict=True)]
        part = source.where(chosen, zero).pad(first, rest, [s - 1 for s in strides])
        total = part if total is None else total + part
    assert total is not None
    return total
