"""The gradient of pooled maxima on CPUs, where XLA's `select_and_scatter` is a scalar loop.

Two vectorized loops replace it. One runs over the windows, and finds the place of the selected element in each. The
other runs over the elements, and adds the sources of the windows that select them. Both are written out for the places
in a window. With strides the second loop makes one array per remainder of the position divided by the stride, because
its elements belong to the same places of windows.
"""
from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from lamina_ir import ShapedArray, dtypes, shaped
from lamina_ir.prims import highest, lowest

from ..._emit.emitted_arrays import Array, concatenate, store
from ..._emit.rule_context import Context
from ..._typing import IrValue
from .shifted_windows import is_overlapping

__all__ = ["can_select_by_position", "scatter_by_position"]

_PLACES = 16  # most places in a window, for the time to compile
_AXES = 8  # most axes, for the range of a place
_OUTSIDE = -16  # a place below all others, also with a place on each of the other axes added
_WORK = 1 << 16  # fewest elements in windows that do not overlap, for which their places are stored
_PLACE, _I32 = np.dtype("int8"), np.dtype("int32")


def can_select_by_position(ctx: Context, x: ShapedArray, window: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether `scatter_by_position` is the better form for an operand, and windows of these lengths."""
    return ctx.platform == "cpu" and ctx.is_unpartitioned and not dtypes.is_complex(x.dtype) and (
        1 < prod(window) <= _PLACES and prod(map(min, strides, x.shape)) <= _PLACES and len(window) <= _AXES)


def scatter_by_position(ctx: Context, source: Array, x: Array, padding: Sequence[tuple[int, int]], select: str,
                        window: Sequence[int], strides: Sequence[int]) -> Array:
    """Add each source to the selected element of its window, in the order of the windows.

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
    lows, highs = zip(*padding, strict=True)
    # Padding is never better than an element. A place is at first that of the first element in the window.
    padded = x.pad(lows, highs, [0] * len(lows), (lowest if select == "ge" else highest)(x.aval.dtype))
    counts = source.shape

    place = _first_places(ctx, x.shape, counts, lows, window, strides)
    best = padded.slice([0] * len(window), counts, strides)
    for k, at in enumerate(np.ndindex(*window)):
        if k:
            part, own = padded.slice(at, counts, strides), Array.full(ctx, k, counts, _PLACE)
            better = _is_better(ctx, part, best, select)
            best, place = part.where(better, best), own.where(better, place)
    # Apart windows are read once per place: few of them are faster in one kernel.
    if is_overlapping(window, strides) or place.aval.size * prod(window) >= _WORK:
        place = store(ctx, place, x)
    return _add_sources(ctx, source, place, x.shape, lows, window, strides)


def _first_places(ctx: Context, shape: Sequence[int], counts: Sequence[int], lows: Sequence[int], window: Sequence[int],
                  strides: Sequence[int]) -> Array:
    """Return the number of the first place in each window that is in x, below 0 if all of it is padding."""
    total = Array.full(ctx, 0, counts, _PLACE)
    for a, (n, count, low, stride) in enumerate(zip(shape, counts, lows, strides, strict=True)):
        if not low and (count - 1) * stride < n:
            continue
        line = shaped((count,), _I32)
        start = ctx.op("stablehlo.multiply", (ctx.iota(line, 0), ctx.const(stride, line)), line)
        start = ctx.op("stablehlo.subtract", (start, ctx.const(low, line)), line)  # position in x
        first = ctx.op("stablehlo.maximum", (ctx.op("stablehlo.negate", (start,), line), ctx.const(0, line)), line)
        inside = ctx.op("stablehlo.and", (
            ctx.compare(first, ctx.const(window[a], line), "LT", line),
            ctx.compare(ctx.op("stablehlo.add", (start, first), line), ctx.const(n, line), "LT", line)),
            shaped((count,), dtypes.BOOL))
        place = ctx.op("stablehlo.multiply", (first, ctx.const(prod(window[a + 1:]), line)), line)
        part = Array(ctx, ctx.select(inside, place, ctx.const(_OUTSIDE, line), line), line).convert(_PLACE)
        total = total + part.broadcast(counts, (a,))
    return total


def _is_better(ctx: Context, x: Array, y: Array, select: str) -> IrValue:
    """Return whether x is selected over the earlier element y: it is better, or the first NaN."""
    if not dtypes.is_float(x.aval.dtype):
        return ctx.compare(x.v, y.v, "GT" if select == "ge" else "LT", x.aval)
    bools = shaped(x.shape, dtypes.BOOL)
    kept = ctx.compare(y.v, x.v, "GE" if select == "ge" else "LE", x.aval)
    kept = ctx.op("stablehlo.or", (kept, ctx.compare(y.v, y.v, "NE", y.aval)), bools)
    return ctx.op("stablehlo.not", (kept,), bools)


def _add_sources(ctx: Context, source: Array, places: Array, shape: Sequence[int], lows: Sequence[int],
                 window: Sequence[int], strides: Sequence[int]) -> Array:
    """Add the source of each window to the element at its selected place.

    The element `stride * q + r` of an axis is at place k of the window `q + d` if `low + r - k = stride * d`.
    """
    cycles = [min(s, n) for s, n in zip(strides, shape, strict=True)]
    counts = [-(-n // c) for n, c in zip(shape, cycles, strict=True)]
    pairs = [[_places_of(r, low, k, s) for r in range(c)]
             for low, k, s, c in zip(lows, window, strides, cycles, strict=True)]
    steps = [[d for of_remainder in axis for d, _ in of_remainder] for axis in pairs]
    before = [max(-min(d, default=0), 0) for d in steps]
    after = [max(q + max(d, default=0) - n, 0) for q, d, n in zip(counts, steps, source.shape, strict=True)]
    rest = [0] * len(before)
    source, places = source.pad(before, after, rest), places.pad(before, after, rest, _OUTSIDE)
    zero = Array.full(ctx, 0, counts, source.aval.dtype)
    parts: list[Array] = []
    for of_axes in product(*pairs):
        total: Array | None = None
        for terms in product(*of_axes):
            first = [d + b for (d, _), b in zip(terms, before, strict=True)]
            number = int(np.ravel_multi_index([k for _, k in terms], window))
            place = places.slice(first, counts, [1] * len(first))
            chosen = ctx.compare(place.v, ctx.const(number, place.aval), "EQ", place.aval)
            part = source.slice(first, counts, [1] * len(first)).where(chosen, zero)
            total = part if total is None else total + part
        parts.append(zero if total is None else total)
    return _interleave(parts, counts, cycles).slice(rest, shape, [1] * len(rest))


def _places_of(remainder: int, low: int, length: int, stride: int) -> list[tuple[int, int]]:
    """Return (step to the window, place in it) pairs, in the order of the windows."""
    first = (remainder + low) % stride
    return [((remainder + low - k) // stride, k) for k in range(first, length, stride)][::-1]


def _interleave(parts: Sequence[Array], counts: Sequence[int], cycles: Sequence[int]) -> Array:
    """Return the array whose element `cycle * q + r` of each axis is element q of part r."""
    ones = [n for count in counts for n in (count, 1)]
    arrays = [p.reshape(ones) for p in parts]
    for a, cycle in reversed(list(enumerate(cycles))):
        row = iter(arrays)
        arrays = [concatenate([first, *(next(row) for _ in range(cycle - 1))], 2 * a + 1) for first in row]
    return arrays[0].reshape([n * c for n, c in zip(counts, cycles, strict=True)])
