"""Sort in NumPy's order: -0 equals 0 and NaN comes last."""
from __future__ import annotations

from collections.abc import Hashable, Sequence

from lamina_ir import DTypeError, ShapeError, dtypes, prims
from lamina_ir.typing import Value

from .._core.array import Array
from .._diagnostics.argument_errors import rename_errors
from ._util.operands import ArrayLike, as_int, bind, check_axis, is_axis_name, typeof
from .reductions._named_axes import gather_named_axes, select_member
from .elementwise import neg

__all__ = ["approx_max_k", "approx_min_k", "sort", "sort_key_val", "top_k"]


def sort(operand: ArrayLike | Sequence[ArrayLike], dimension: int | Hashable = -1, is_stable: bool = True,
         num_keys: int = 1) -> Array | tuple[Array, ...]:
    """Sort along one axis, ascending.

    Args:
      operand: an array, or several of one shape that are reordered together.
      dimension: the axis, or the name of a mapped one: each member gets the element of its rank in the order.
      is_stable: whether equal keys keep their order.
      num_keys: how many of the operands, from the first, are compared; the first decides, then the second, ...
    Returns:
      An array, or a tuple when `operand` is a sequence.

    Derivative: that of the permutation.

    >>> import numpy as np
    >>> sort(np.array([3., 1., 2.], np.float32))
    Array([1., 2., 3.], dtype=float32)
    """
    operands: tuple[Value, ...] = tuple(operand) if isinstance(operand, (tuple, list)) else (operand,)
    if not operands:
        raise ShapeError("sort: expected an array or a sequence of arrays; got an empty sequence")
    if dimension.__class__ is not int and is_axis_name(dimension):
        whole = tuple([gather_named_axes(x, (dimension,)) for x in operands])
        mine = [select_member(y, dimension) for y in sort(whole, 0, is_stable, num_keys)]
        return tuple(mine) if isinstance(operand, (tuple, list)) else mine[0]
    axis = check_axis("sort", dimension, len(typeof(operands[0]).shape))
    out = bind(prims.sort_p, *operands, dimension=axis, is_stable=bool(is_stable), num_keys=int(num_keys))
    return tuple(out) if isinstance(operand, (tuple, list)) else out[0]


@rename_errors
def sort_key_val(keys: ArrayLike, values: ArrayLike, dimension: int = -1,
                 is_stable: bool = True) -> tuple[Array, Array]:
    """Sort `keys` along one axis and reorder `values` with them.

    Args:
      keys, values: arrays of one shape.
      dimension: the axis; negative counts from the end.
      is_stable: equal keys stay in their order.

    >>> import numpy as np
    >>> sort_key_val(np.array([3, 1], np.int32), np.array([7, 8], np.int32))
    (Array([1, 3], dtype=int32), Array([8, 7], dtype=int32))
    """
    k, v = sort((keys, values), dimension=dimension, is_stable=is_stable, num_keys=1)
    return k, v


def top_k(operand: ArrayLike, k: int, *, axis: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """Return the `k` largest elements along an axis, largest first, and their positions; NaN counts as largest.

    Among equal elements those with lower positions come first.

    Args:
      operand: array of a dtype that can be ordered.
      k: the number of elements.
      axis: the axis.
      is_stable: has no effect, as equal elements are always in order.
    Returns:
      The elements, and their positions as int32; the axis has length `k`.

    Derivative: that of the selected elements.

    >>> import numpy as np
    >>> top_k(np.array([1., 3., 2.], np.float32), 2)
    (Array([3., 2.], dtype=float32), Array([1, 2], dtype=int32))
    """
    values, places = bind(prims.top_k_p, operand, axis=check_axis("top_k", axis, len(typeof(operand).shape)),
                          k=as_int("top_k", "k", k))
    return values, places


@rename_errors
def approx_max_k(operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1, aggregate_to_topk: bool = True) -> tuple[Array, Array]:
    """Return at least the fraction `recall_target` of the `k` largest elements along an axis, and their positions.

    This implementation finds all of them, so every target is met; the other arguments are only checked.

    Args:
      operand: float array.
      k: the number of elements.
      reduction_dimension: the axis.
      recall_target: in (0, 1].
      reduction_input_size_override: size of the whole axis where `operand` holds a part of it; -1 for none.
      aggregate_to_topk: False requests the candidates, more than `k`, of an approximate search. There are no
        candidates here, so the result always has `k` sorted elements.
    Returns:
      The elements, largest first, and their positions as int32.

    >>> import numpy as np
    >>> approx_max_k(np.array([1., 3., 2.], np.float32), 2)
    (Array([3., 2.], dtype=float32), Array([1, 2], dtype=int32))
    """
    return _approx("approx_max_k", operand, k, reduction_dimension, recall_target, reduction_input_size_override)


@rename_errors
def approx_min_k(operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1, aggregate_to_topk: bool = True) -> tuple[Array, Array]:
    """Return the smallest elements as `approx_max_k` the largest, smallest first.

    >>> import numpy as np
    >>> approx_min_k(np.array([1., 3., 2.], np.float32), 2)
    (Array([1., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """
    values, places = _approx("approx_min_k", neg(operand), k, reduction_dimension, recall_target,
                             reduction_input_size_override)
    return neg(values), places


def _approx(call: str, operand: ArrayLike, k: int, axis: int, recall_target: float,
            size_override: int) -> tuple[Array, Array]:
    aval = typeof(operand)
    if not dtypes.is_float(aval.dtype):
        raise DTypeError(f"{call}: expected a float operand; got {aval.str_long()}; use lax.top_k")
    if not 0 < recall_target <= 1:
        raise ValueError(f"{call}: recall_target must be in (0, 1]; got {recall_target}")
    axis = check_axis(call, axis, len(aval.shape))
    if size_override != -1 and size_override < aval.shape[axis]:
        raise ValueError(f"{call}: reduction_input_size_override must be -1 or at least the length "
                         f"{aval.shape[axis]} of the axis; got {size_override}")
    k = as_int(call, "k", k)
    if not 0 <= k <= aval.shape[axis]:
        raise ShapeError(f"{call}: k must be between 0 and the length of axis {axis}; got k={k} for {aval.str_long()}")
    return top_k(operand, k, axis=axis)
