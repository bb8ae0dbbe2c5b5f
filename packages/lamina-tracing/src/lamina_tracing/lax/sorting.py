"""Sorting in NumPy's order: -0 equals 0 and NaN comes last."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lamina_ir import prims
from lamina_ir.errors import ShapeError

from ..array import Array
from . import shape as _shape
from ._common import ArrayLike, bind, check_axis, typeof

__all__ = ["sort", "sort_key_val", "top_k"]


def sort(operand: ArrayLike | Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True,
         num_keys: int = 1) -> Array | tuple[Array, ...]:
    """Sort along one axis, ascending.

    Args:
      operand: an array, or several of one shape that are reordered together.
      dimension: the axis.
      is_stable: whether equal keys keep their order.
      num_keys: how many of the operands, from the first, are compared; the first decides, then the second, ...
    Returns:
      An array, or a tuple when `operand` is a sequence.

    Derivative: that of the reordering found.

    >>> sort(np.array([3., 1., 2.], np.float32))
    Array([1., 2., 3.], dtype=float32)
    """
    operands: tuple[ArrayLike, ...] = tuple(operand) if isinstance(operand, (tuple, list)) else (operand,)
    if not operands:
        raise ShapeError("sort: expected an array or a sequence of arrays; got an empty sequence")
    axis = check_axis("sort", dimension, len(typeof(operands[0]).shape))
    out = bind(prims.sort_p, *operands, dimension=axis, is_stable=bool(is_stable), num_keys=int(num_keys))
    return tuple(out) if isinstance(operand, (tuple, list)) else out[0]


def sort_key_val(keys: ArrayLike, values: ArrayLike, dimension: int = -1,
                 is_stable: bool = True) -> tuple[Array, Array]:
    """Sort `keys` along one axis and reorder `values` with them.

    >>> sort_key_val(np.array([3, 1], np.int32), np.array([7, 8], np.int32))
    (Array([1, 3], dtype=int32), Array([8, 7], dtype=int32))
    """
    k, v = sort((keys, values), dimension=dimension, is_stable=is_stable, num_keys=1)
    return k, v


def top_k(operand: ArrayLike, k: int) -> tuple[Array, Array]:
    """The `k` largest elements along the last axis, largest first, and their positions; NaN counts as largest.

    Among equal elements those with lower positions come first.

    >>> top_k(np.array([1., 3., 2.], np.float32), 2)
    (Array([3., 2.], dtype=float32), Array([1, 2], dtype=int32))
    """
    aval = typeof(operand)
    if not aval.shape or not 0 <= k <= aval.shape[-1]:
        raise ShapeError(f"top_k: k must be between 0 and the length of the last axis; got k={k} for {aval.long()}")
    last = len(aval.shape) - 1
    n = aval.shape[-1]
    # A stable ascending sort of the reversed array, reversed: ties then come lowest position first.
    places = _shape.rev(_shape.broadcasted_iota(np.dtype("int32"), aval.shape, last), (last,))
    values, places = sort((_shape.rev(operand, (last,)), places), dimension=last)
    return (_shape.rev(_shape.slice_in_dim(values, n - k, n, axis=last), (last,)),
            _shape.rev(_shape.slice_in_dim(places, n - k, n, axis=last), (last,)))
