"""Arrays joined along a new axis or repeated, and cut along one; arrays with the shape of another, and shapes as arrays."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lamina_ir import DTypeError, ShapeError

from .._core.array import Array, ArrayLike, DTypeLike
from .._diagnostics.argument_errors import rename_errors
from . import elementwise as ew
from . import shape as sh
from ._util.operands import as_ints, check_axis, scalar, typeof
from .creation import full

__all__ = ["broadcast_like", "empty", "shape_as_value", "stack", "stage", "tile", "unstack"]


@rename_errors
def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """Broadcast an array to the shape of another one. The last axes correspond, as in NumPy.

    Args:
      arr: array whose axes have length 1 or that of the corresponding axis of `like_arr`.
      like_arr: array, of which only the shape is used.
    Returns:
      Array of the shape of `like_arr` and the dtype of `arr`.
    Raises:
      ShapeError: the shapes do not fit.

    Derivative: linear; the transpose sums over the repeated axes.

    >>> import numpy as np
    >>> broadcast_like(np.int32([1, 2, 3]), np.zeros((2, 3), np.float32))
    Array([[1, 2, 3],
           [1, 2, 3]], dtype=int32)
    """
    t, like = typeof(arr), typeof(like_arr)
    n = len(like.shape) - len(t.shape)
    if n < 0 or any(m not in (1, k) for m, k in zip(t.shape, like.shape[n:], strict=True)):
        raise ShapeError(f"{t.str_long()} does not broadcast to the shape of {like.str_long()}")
    return sh.broadcast_in_dim(arr, like.shape, tuple(range(n, len(like.shape))))


@rename_errors
def empty(shape: int | Sequence[int], dtype: DTypeLike) -> Array:
    """Return an array whose elements are to be overwritten; here they are zeros.

    >>> empty((2,), "float32").shape
    (2,)
    """
    return full(shape if isinstance(shape, Sequence) else as_ints("empty", "shape", (shape,)), 0, dtype)


@rename_errors
def shape_as_value(shape: Sequence[int]) -> Array:
    """Return the lengths of axes as an int32 array.

    >>> shape_as_value((2, 3))
    Array([2, 3], dtype=int32)
    """
    sizes = as_ints("shape_as_value", "shape", shape)
    parts = [full((1,), scalar(n, np.dtype(np.int32))) for n in sizes]
    return sh.concatenate(parts, 0) if parts else full((0,), 0, np.int32)


@rename_errors
def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Join arrays of one shape and dtype along a new axis.

    Args:
      operands: at least one array `[...]`.
      axis: the place of the new axis in the result; a negative one counts from the end.
    Returns:
      Array `[..., len(operands), ...]`.
    Raises:
      ShapeError: there are no operands, or their shapes differ.
      DTypeError: their dtypes differ.

    Derivative: linear; the transpose unstacks.

    >>> import numpy as np
    >>> stack([np.int32([1, 2]), np.int32([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    operands = sh._list_items("stack", "operands", operands)
    if not operands:
        raise ShapeError("expected at least one operand; got an empty sequence")
    types = [typeof(x) for x in operands]
    for t in types[1:]:
        if t.shape != types[0].shape:
            raise ShapeError(f"operands must have one shape; got {types[0].str_long()} and {t.str_long()}")
        if t.dtype != types[0].dtype:
            raise DTypeError(f"operands must have one dtype; got {types[0].str_long()} and {t.str_long()}")
    place = check_axis("stack", axis, len(types[0].shape) + 1)
    return sh.concatenate([sh.expand_dims(x, (place,)) for x in operands], place)


@rename_errors
def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """Cut an array along an axis into arrays without this axis.

    Args:
      x: array `[..., n, ...]`.
      axis: the axis; a negative one counts from the end.
    Returns:
      n arrays `[...]`.
    Raises:
      ShapeError: `x` does not have the axis.

    Derivative: linear; the transpose stacks.

    >>> import numpy as np
    >>> unstack(np.int32([[1, 2], [3, 4]]), axis=1)
    (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    shape = typeof(x).shape
    place = check_axis("unstack", axis, len(shape))
    return tuple(sh.index_in_dim(x, i, place, keepdims=False) for i in range(shape[place]))


@rename_errors
def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeat an array along each of its axes.

    Args:
      operand: array `[...]`.
      reps: for each axis, how many copies are joined along it.
    Returns:
      Array whose axes are so many times as long.
    Raises:
      ShapeError: there are not as many numbers in `reps` as axes.
      ValueError: a number is negative.

    Derivative: linear; the transpose sums the copies.

    >>> import numpy as np
    >>> tile(np.int32([[1, 2]]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int32)
    """
    t, counts = typeof(operand), as_ints("tile", "reps", reps)
    if len(counts) != len(t.shape):
        raise ShapeError(f"reps must have one number for each axis of {t.str_long()}; got {counts}")
    if any(n < 0 for n in counts):
        raise ValueError(f"reps must not be negative; got {counts}")
    parts = [k for pair in zip(counts, t.shape, strict=True) for k in pair]
    copies = sh.broadcast_in_dim(operand, parts, tuple(range(1, len(parts), 2)))
    return sh.reshape(copies, [n * k for n, k in zip(counts, t.shape, strict=True)])


@rename_errors
def stage(x: ArrayLike) -> Array:
    """Return a number or an array as an array; in a traced function, as a traced value.

    >>> stage(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return ew.copy(x)
