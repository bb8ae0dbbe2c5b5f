"""Reductions of windows on CPUs as combined slices: XLA's `reduce_window` is a scalar loop.

One slice of the operand per place in a window has the elements of all windows at that place. One vectorized loop
combines them. If windows overlap, the result is stored: XLA would compute a window again for each place where the next
operation reads it.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from lamina_ir import ShapedArray, dtypes

from ..._emit.emitted_arrays import Array, store
from ..._emit.rule_context import Context
from ..._typing import IrValue

__all__ = ["can_combine_shifted", "combine_shifted", "is_overlapping"]

_PLACES = 32  # most places in a window, for the time to compile
_WORK = 1 << 16  # fewest elements combined in overlapping windows, for which the loop pays off


def can_combine_shifted(ctx: Context, out: ShapedArray, window: Sequence[int], strides: Sequence[int],
                        padding: Sequence[tuple[int, int]]) -> bool:
    """Return whether `combine_shifted` is the better form for a result of this type, and windows of these lengths."""
    count = prod(window)
    return ctx.platform == "cpu" and ctx.is_unpartitioned and 1 < count <= _PLACES and (
        all(low >= 0 and high >= 0 for low, high in padding) and out.size > 0) and (
        not is_overlapping(window, strides) or out.size * count >= _WORK)


def is_overlapping(window: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether an element can be in several windows."""
    return any(n > s for n, s in zip(window, strides, strict=True))


def combine_shifted(ctx: Context, x: Array, out: ShapedArray, combine: Callable[..., IrValue], identity: float, *,
                    base_dilation: Sequence[int], padding: Sequence[tuple[int, int]],
                    window_dilation: Sequence[int], window_dimensions: Sequence[int],
                    window_strides: Sequence[int]) -> IrValue:
    """Combine the elements of each window in their order.

    Args:
      ctx: the lowering context.
      x: the operand.
      out: the type of the result, with the dtype of x.
      combine: `combine(ctx, a, b, out)` emits the combination of two arrays of that type.
      identity: its neutral element, which is also the padding.
      base_dilation: distances between the elements of x; the others are as in `lax.reduce_window`.
    """
    lows, highs = zip(*padding, strict=True)

    padded = x.pad(lows, highs, [d - 1 for d in base_dilation], identity)
    total: Array | None = None
    for at in np.ndindex(*window_dimensions):
        first = [k * gap for k, gap in zip(at, window_dilation, strict=True)]
        part = padded.slice(first, out.shape, window_strides)
        total = part if total is None else Array(ctx, combine(ctx, total.v, part.v, out), out)
    assert total is not None
    if identity == 0 and dtypes.is_float(out.dtype):  # a sum that starts at 0 is never -0
        zero = Array.full(ctx, 0, out.shape, out.dtype)
        total = zero.where(ctx.compare(total.v, zero.v, "EQ", out), total)
    return (store(ctx, total, x) if is_overlapping(window_dimensions, window_strides) else total).v
