"""Functions that move or repeat elements. Shapes and axes may be any sequence of integers.

A function that would change nothing returns its operand, such as a reshape to the same shape.
"""
from __future__ import annotations

from functools import partial
from collections.abc import Sequence

from lamina_ir import ShapeError, prims
from lamina_ir.typing import Sharding, Value

from .._core.array import Array
from .._diagnostics.argument_errors import rename_errors
from ._util.operands import (_SCALARS, ArrayLike, as_int, as_ints, bind, check_axes, check_axis, copy_host_result,
                             match_scalars, typeof)
from ._sharding.out_sharding import call_with_out_sharding, check_out_sharding

__all__ = ["broadcast", "broadcast_in_dim", "broadcast_shapes", "broadcast_to_rank", "collapse", "concatenate",
           "expand_dims", "index_in_dim", "pad", "reshape", "rev", "slice", "slice_in_dim", "split", "squeeze",
           "transpose"]

_broadcast_in_dim_p, _reshape_p, _transpose_p = prims.broadcast_in_dim_p, prims.reshape_p, prims.transpose_p


def _list_items(call: str, argument: str, values: Sequence[Value]) -> list[Value]:
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"{call}: {argument} must be a sequence; got {type(values).__name__}: {values!r:.60}") from None


# --- repeating ----------------------------------------------------------------------------------------------------
def broadcast_in_dim(operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Array:
    """Repeat an array along new axes and along axes of length 1.

    Args:
      operand: array of any shape.
      shape: the result's shape.
      broadcast_dimensions: for each operand axis, the result axis it becomes; increasing.
    Returns:
      Array of `shape`, dtype of `operand`.
    Raises:
      ShapeError: an operand axis has neither length 1 nor that of its result axis.

    Derivative: linear; the transpose sums over the repeated axes.

    >>> broadcast_in_dim(np.array([1., 2.], np.float32), (2, 2), (0,))
    Array([[1., 1.],
           [2., 2.]], dtype=float32)
    """
    shape = as_ints("broadcast_in_dim", "shape", shape)
    dims = as_ints("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions)
    if type(operand) not in _SCALARS and typeof(operand).shape == shape and dims == tuple(range(len(shape))):
        return copy_host_result(operand)
    return bind(_broadcast_in_dim_p, operand, shape=shape, broadcast_dimensions=dims)


def broadcast(operand: ArrayLike, sizes: Sequence[int]) -> Array:
    """Repeat an array along new leading axes of the given sizes.

    >>> broadcast(np.array([1., 2.], np.float32), (2,)).shape
    (2, 2)
    """
    sizes = as_ints("broadcast", "sizes", sizes)
    if not sizes:
        return copy_host_result(operand)
    shape = typeof(operand).shape
    dims = tuple(range(len(sizes), len(sizes) + len(shape)))
    return bind(_broadcast_in_dim_p, operand, shape=sizes + shape, broadcast_dimensions=dims)


@rename_errors
def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that NumPy broadcasting gives arrays of these shapes.

    >>> broadcast_shapes((3, 1), (2, 1, 4))
    (2, 3, 4)
    """
    if len(shapes) == 1 or (len(shapes) == 2 and shapes[0] == shapes[1]):
        return tuple(shapes[0])
    ndim = max(map(len, shapes), default=0)
    out = [1] * ndim
    for shape in shapes:
        for at, n in enumerate(shape, ndim - len(shape)):
            if n != 1:
                if out[at] not in (1, n):
                    raise ShapeError(f"broadcast_shapes: shapes {', '.join(map(str, shapes))} do not broadcast: axis "
                                     f"{at - ndim} has lengths {out[at]} and {n}; expected equal lengths or 1")
                out[at] = n
    return tuple(out)


@rename_errors
def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Add leading axes of length 1 to `x` until it has `rank` axes.

    >>> broadcast_to_rank(np.ones(3, np.float32), 2).shape
    (1, 3)
    """
    missing = as_int("broadcast_to_rank", "rank", rank) - len(typeof(x).shape)
    if missing < 0:
        raise ShapeError(f"broadcast_to_rank: expected an array with at most {rank} axes; got {typeof(x).str_long()}")
    return copy_host_result(x) if not missing else expand_dims(x, range(missing))


# --- reshaping ----------------------------------------------------------------------------------------------------
def reshape(operand: ArrayLike, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, *,
            out_sharding: Sharding = None) -> Array:
    """Return the elements in row-major order, in another shape.

    Args:
      operand: array of any shape.
      new_sizes: the result's shape; as many elements as `operand` has.
      dimensions: axes of `operand` in the order in which they are read; None: their own order.
      out_sharding: None, or the sharding of the result over `Explicit` axes: a `PartitionSpec` or a `NamedSharding`.
    Returns:
      Array of shape `new_sizes`, dtype of `operand`.
    Raises:
      ValueError: `out_sharding` names an axis that is not `Explicit`.

    Derivative: linear; the transpose reshapes back.

    >>> reshape(np.arange(6, dtype=np.int32), (2, 3))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    if out_sharding is not None:
        check_out_sharding("reshape", out_sharding)
        return call_with_out_sharding("reshape", partial(
            reshape, new_sizes=new_sizes, dimensions=dimensions), (operand,), out_sharding)
    new_sizes = as_ints("reshape", "new_sizes", new_sizes)
    shape = typeof(operand).shape
    if dimensions is not None:
        dimensions = as_ints("reshape", "dimensions", dimensions)
        if dimensions == tuple(range(len(shape))):
            dimensions = None
    if dimensions is None and shape == new_sizes and type(operand) not in _SCALARS:
        return copy_host_result(operand)
    return bind(_reshape_p, operand, new_sizes=new_sizes, dimensions=dimensions)


def _normalize_stop(stop: int, ndim: int) -> int:
    """Return the end of a range of axes: at most `ndim`; negative counts from there, as in a slice."""
    at = as_int("collapse", "stop_dimension", stop)
    if not -ndim <= at <= ndim:
        raise ShapeError(f"collapse: stop_dimension {at} is out of range for an array with {ndim} axes; expected "
                         f"{-ndim} <= stop_dimension <= {ndim}")
    return at + ndim if at < 0 else at


@rename_errors
def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Join axes `start_dimension` up to, not including, `stop_dimension` into one.

    >>> collapse(np.ones((2, 3, 4), np.float32), 1).shape
    (2, 12)
    """
    shape = typeof(operand).shape
    lo = check_axis("collapse", start_dimension, len(shape))
    hi = len(shape) if stop_dimension is None else _normalize_stop(stop_dimension, len(shape))
    if hi < lo:
        raise ShapeError(f"collapse: stop_dimension must not be before start_dimension; got {start_dimension} and "
                         f"{stop_dimension} for {typeof(operand).str_long()}")
    length = 1
    for n in shape[lo:hi]:
        length *= n
    return reshape(operand, (*shape[:lo], length, *shape[hi:]))


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Permute axes: result axis `i` is operand axis `permutation[i]`.

    Derivative: linear; the transpose is the inverse permutation.

    >>> transpose(np.ones((2, 3), np.float32), (1, 0)).shape
    (3, 2)
    """
    permutation = as_ints("transpose", "permutation", permutation)
    if permutation == tuple(range(len(permutation))) and type(operand) not in _SCALARS \
            and len(typeof(operand).shape) == len(permutation):
        return copy_host_result(operand)
    return bind(_transpose_p, operand, permutation=permutation)


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Drop axes of length 1; negative axes count from the end.

    >>> squeeze(np.ones((1, 3, 1), np.float32), (0, -1)).shape
    (3,)
    """
    axes = tuple(sorted(check_axes("squeeze", dimensions, len(typeof(array).shape))))
    return copy_host_result(array) if not axes else bind(prims.squeeze_p, array, dimensions=axes)


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Add axes of length 1 at these positions of the result; negative positions count from the end.

    >>> expand_dims(np.ones(3, np.float32), (0, -1)).shape
    (1, 3, 1)
    """
    axes = as_ints("expand_dims", "dimensions", dimensions)
    axes = tuple(sorted(check_axes("expand_dims", axes, len(typeof(array).shape) + len(axes))))
    return copy_host_result(array) if not axes else bind(prims.expand_dims_p, array, dimensions=axes)


# --- joining, padding, cutting ------------------------------------------------------------------------------------
def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Join arrays along an axis; they must agree in dtype and in all other axes.

    Derivative: linear; the transpose cuts the cotangent into the operands' pieces.

    >>> concatenate([np.zeros(2, np.float32), np.ones(1, np.float32)], 0)
    Array([0., 0., 1.], dtype=float32)
    """
    operands = _list_items("concatenate", "operands", operands)
    if not operands:
        raise ShapeError("concatenate: expected at least one operand; got an empty sequence")
    axis = check_axis("concatenate", dimension, len(typeof(operands[0]).shape))
    if len(operands) == 1 and type(operands[0]) not in _SCALARS:
        return copy_host_result(operands[0])
    return bind(prims.concatenate_p, *operands, dimension=axis)


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Cut an array along an axis into pieces of these lengths, which add up to the axis's length.

    >>> [piece.shape for piece in split(np.ones(5, np.float32), (2, 3))]
    [(2,), (3,)]
    """
    shape, sizes = typeof(operand).shape, as_ints("split", "sizes", sizes)
    axis = check_axis("split", axis, len(shape))
    if sum(sizes) != shape[axis]:
        raise ShapeError(f"split: sizes must add up to the axis length; got sizes {sizes} for axis {axis} of "
                         f"{typeof(operand).str_long()}")
    pieces, start = [], 0
    for n in sizes:
        pieces.append(slice_in_dim(operand, start, start + n, axis=axis))
        start += n
    return pieces


def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """Add copies of a value before, after and between the elements of each axis.

    Args:
      operand: array of any shape.
      padding_value: scalar of the operand's dtype.
      padding_config: `(low, high, interior)` counts per axis; negative low or high cut elements off.

    Derivative: linear in both operands.

    >>> pad(np.array([1., 2.], np.float32), 0., [(1, 0, 1)])
    Array([0., 1., 0., 2.], dtype=float32)
    """
    operand, padding_value = match_scalars(operand, padding_value)
    config = tuple([as_ints("pad", "padding_config", c) for c in _list_items("pad", "padding_config", padding_config)])
    for c in config:
        if len(c) != 3:
            raise ShapeError(f"pad: each axis needs (low, high, interior); got {c} in {config}")
    return bind(prims.pad_p, operand, padding_value, padding_config=config)


def slice(operand: ArrayLike, start_indices: Sequence[int], limit_indices: Sequence[int],
          strides: Sequence[int] | None = None) -> Array:
    """Return the elements from `start_indices` up to, not including, `limit_indices`, each `strides` apart.

    >>> slice(np.arange(6, dtype=np.int32), (1,), (6,), (2,))
    Array([1, 3, 5], dtype=int32)
    """
    if strides is not None:
        strides = as_ints("slice", "strides", strides)
        if len(strides) == len(typeof(operand).shape) and all(s == 1 for s in strides):
            strides = None
    return bind(prims.slice_p, operand, start_indices=as_ints("slice", "start_indices", start_indices),
                limit_indices=as_ints("slice", "limit_indices", limit_indices), strides=strides)


def slice_in_dim(operand: ArrayLike, start_index: int | None, limit_index: int | None, stride: int = 1,
                 axis: int = 0) -> Array:
    """Return `operand[start_index:limit_index:stride]` along one axis.

    Args:
      operand: array.
      start_index, limit_index: known ints, negative ones counted from the end; None for the ends of the axis.
      stride: the distance between the elements taken, at least 1.
      axis: the axis; negative counts from the end.
    Raises:
      ShapeError: the slice leaves the axis.

    >>> slice_in_dim(np.arange(6, dtype=np.int32), 1, -1)
    Array([1, 2, 3, 4], dtype=int32)
    """
    shape = typeof(operand).shape
    axis = check_axis("slice_in_dim", axis, len(shape))
    n = shape[axis]
    lo = 0 if start_index is None else as_int("slice_in_dim", "start_index", start_index)
    hi = n if limit_index is None else as_int("slice_in_dim", "limit_index", limit_index)
    lo, hi = lo + n if lo < 0 else lo, hi + n if hi < 0 else hi
    starts, limits = [0] * len(shape), list(shape)
    starts[axis], limits[axis] = lo, hi
    strides: tuple[int, ...] | None = None
    if stride != 1:
        steps = [1] * len(shape)
        steps[axis] = as_int("slice_in_dim", "stride", stride)
        strides = tuple(steps)
    return bind(prims.slice_p, operand, start_indices=tuple(starts), limit_indices=tuple(limits), strides=strides)


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """Return the slice of length 1 at `index` along one axis.

    Args:
      operand: array.
      index: a known int; negative counts from the end.
      axis: the axis; negative counts from the end.
      keepdims: keep it as an axis of length 1.
    Raises:
      ShapeError: the index is outside the axis.

    >>> index_in_dim(np.arange(6, dtype=np.int32), -1, keepdims=False)
    Array(5, dtype=int32)
    """
    shape = typeof(operand).shape
    axis = check_axis("index_in_dim", axis, len(shape))
    at = as_int("index_in_dim", "index", index)
    if not -shape[axis] <= at < shape[axis]:
        raise ShapeError(f"index_in_dim: index {at} is out of range for axis {axis} of {typeof(operand).str_long()}")
    at = at + shape[axis] if at < 0 else at
    piece = slice_in_dim(operand, at, at + 1, axis=axis)
    return piece if keepdims else squeeze(piece, (axis,))


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the elements along these axes.

    >>> rev(np.arange(3, dtype=np.int32), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    axes = check_axes("rev", dimensions, len(typeof(operand).shape))
    return copy_host_result(operand) if not axes else bind(prims.rev_p, operand, dimensions=axes)
