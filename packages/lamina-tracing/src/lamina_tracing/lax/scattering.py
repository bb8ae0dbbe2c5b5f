"""`scatter_apply`: apply a function in place, with `gather` and `scatter`."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from lamina_ir import ShapedArray, ShapeError
from lamina_ir.typing import ParamValue, Value

from .._core.signature import function_name
from .._diagnostics.argument_errors import rename_errors
from ._util.operands import ArrayLike, check_callable, typeof
from ._control_flow.loops import while_loop
from .creation import full
from .elementwise import lt, select
from .indexing import (GatherDimensionNumbers, GatherScatterMode, Mode, ScatterDimensionNumbers, _numbers, gather,
                       scatter, scatter_add)
from .reductions import reduce_max
from .._core.array import Array

__all__ = ["scatter_apply"]


@rename_errors
def scatter_apply(operand: ArrayLike, scatter_indices: ArrayLike, func: Callable[[Value], Value],
                  dimension_numbers: ScatterDimensionNumbers, *, update_shape: Sequence[int] = (),
                  indices_are_sorted: bool = False, unique_indices: bool = False, mode: Mode = None) -> Array:
    """Return `operand` with a function applied to the windows at the index vectors.

    An element in several windows is transformed once for each of them.

    Args:
      operand: array to start from.
      scatter_indices: integer array `[..., k]` of index vectors.
      func: elementwise function: array -> array of the same shape and dtype.
      dimension_numbers: which axis is which.
      update_shape: shape that updates would have in `scatter`: a window for each index vector.
      indices_are_sorted: promise that index vectors ascend.
      unique_indices: promise that no two windows overlap; the function is then called once, without a loop.
      mode: 'clip', 'drop' (None means this) or 'promise_in_bounds': what to do with windows outside the operand.
    Returns:
      Array of the operand's shape and dtype.
    Raises:
      ShapeError: `update_shape` does not fit, or `func` changes shape or dtype.

    Derivative: that of its parts, as often as the function was applied.
    Source: StableHLO `scatter`, with the function as its body.

    >>> dims = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_apply(np.float32([1, 2, 3]), np.array([[0], [2], [2]]), lambda x: x * 10, dims, update_shape=(3,))
    Array([ 10.,   2., 300.], dtype=float32)
    """
    check_callable("scatter_apply", "func", func)
    dims = _numbers("scatter_apply", ScatterDimensionNumbers, dimension_numbers)
    aval, shape, window = typeof(operand), tuple(update_shape), tuple(dims.update_window_dims)
    batch = _check_update_shape(shape, window, typeof(scatter_indices))
    # The gather that reads the windows which the scatter with these numbers writes.
    sizes = iter(shape[a] for a in window)
    gone = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    how = GatherScatterMode.from_any(mode)
    reads = GatherDimensionNumbers(window, dims.inserted_window_dims, dims.scatter_dims_to_operand_dims,
                                   dims.operand_batching_dims, dims.scatter_indices_batching_dims)
    taken = tuple(1 if a in gone else next(sizes, 1) for a in range(len(aval.shape)))
    promises: dict[str, Any] = dict(indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=how)

    def windows(x: Value, **extra: ParamValue) -> Value:
        return gather(x, scatter_indices, reads, taken, **promises, **extra)

    apply, first = functools.partial(_apply_elementwise, func), windows(operand)
    count = prod(batch)
    if unique_indices or count <= 1:
        return scatter(operand, scatter_indices, apply(first), dims, **promises)
    # times: the number of windows that contain each element, counted by a scatter and read back. So overlapping windows
    # write equal values, and their order does not matter.
    ones = full(shape, 1, np.dtype("int32"))
    times = windows(scatter_add(full(aval.shape, 0, np.dtype("int32")), scatter_indices, ones, dims, **promises),
                    fill_value=0)

    return scatter(operand, scatter_indices, repeat_elementwise(apply, first, times, count), dims, **promises)


def _apply_elementwise(func: Callable[[Value], Value], x: Value) -> Value:
    """Return `func(x)`; ShapeError if it has another shape or dtype than `x`."""
    y, wanted = func(x), typeof(x)
    if typeof(y).shape != wanted.shape or typeof(y).dtype != wanted.dtype:
        raise ShapeError(f"scatter_apply: `{function_name(func)}` must keep shape and dtype, {wanted.str_long()}; got "
                         f"{typeof(y).str_long()}")
    return y


def _check_update_shape(shape: tuple[int, ...], window: tuple[int, ...], indices: ShapedArray) -> tuple[int, ...]:
    """Return the shape of the batch of index vectors; ShapeError if `shape` is not that and the window axes."""
    batch = indices.shape[:-1]
    if len(shape) != len(window) + len(batch) or any(w >= len(shape) for w in window) or \
            tuple(n for a, n in enumerate(shape) if a not in window) != batch:
        raise ShapeError(f"scatter_apply: update_shape must hold the {len(window)} window axes {window} and, between "
                         f"them, the axes {batch} of scatter_indices; got {shape} for {indices.str_long()}")
    return batch


def repeat_elementwise(func: Callable[[Value], Value], first: Value, times: Value, most: int) -> Value:
    """Apply an elementwise function `times` times to each element of `first`, at least once.

    Args:
      func: keeps shape and dtype.
      first: array.
      times: int32 array of its shape.
      most: no element of `times` is larger.
    Returns:
      An array of the shape and dtype of `first`.

    >>> repeat_elementwise(lambda x: x * x, np.full(3, 2, np.int32), np.array([1, 2, 3], np.int32), 3)
    Array([  4,  16, 256], dtype=int32)
    """
    def again(state: tuple[Value, Value]) -> tuple[Value, Value]:
        k, x = state
        active = lt(k, times)
        return k + 1, select(active, func(select(active, x, first)), x)  # `func` gets only values to transform

    shape = typeof(first).shape
    last = reduce_max(times, tuple(range(len(shape)))) if prod(shape) else np.int32(0)
    return while_loop(lambda state: lt(state[0], last), again, (np.int32(1), func(first)), max_iters=max(most - 1, 0))[1]
