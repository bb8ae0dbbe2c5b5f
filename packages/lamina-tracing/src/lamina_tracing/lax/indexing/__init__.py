"""Read and write windows at positions that are known only when the program runs: dynamic slices, gather, scatter."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import DTypeError, dtypes, Primitive, prims, ShapeError
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from lamina_ir.typing import Function, Value

from ._index_checks import check_index, check_index_vectors, should_check_bounds
from ..._diagnostics.argument_errors import rename_errors
from .._util.operands import ArrayLike, as_ints, bind, check_axes, check_axis, set_public_name, typeof
from .._util.conversions import convert_element_type
from ..elementwise import add, lt, neg, rem, select
from ..shape import concatenate, expand_dims, reshape, squeeze
from ..shape import slice as static_slice
from ..._core.array import Array
from ..._typing import Unchecked

__all__ = ["GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "dynamic_index_in_dim",
           "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim", "dynamic_update_slice",
           "dynamic_update_slice_in_dim", "gather", "index_take", "scatter", "scatter_add", "scatter_max",
           "scatter_min", "scatter_mul", "scatter_sub"]

Starts = ArrayLike | Sequence[ArrayLike]
Mode = str | GatherScatterMode | None


def _list_starts(call: str, starts: Value, ndim: int) -> list[Value]:
    """Return start indices one by one, from a sequence of scalars or from a rank-1 array."""
    if type(starts) in (tuple, list):
        found = list(starts)
    else:
        aval = typeof(starts)
        if len(aval.shape) != 1:
            raise ShapeError(f"{call}: start_indices must be a rank-1 array or a sequence of scalars; got {aval.str_long()}")
        if isinstance(starts, np.ndarray):
            found = [int(s) for s in starts]
        else:
            found = [squeeze(static_slice(starts, (i,), (i + 1,)), (0,)) for i in range(aval.shape[0])]
    if len(found) != ndim:
        raise ShapeError(f"{call}: needs one start index for each of {ndim} axes; got {len(found)}")
    return found


def _count_from_front(call: str, start: Value, length: int, wrap: bool) -> Value:
    """Return a start counted from the front; it may count from the end (`-1`)."""
    if isinstance(start, (int, np.integer)) and not isinstance(start, bool):
        start = int(start)
        start = start + length if wrap and start < 0 else start
        return min(max(start, -1), length)  # out-of-range starts are clamped later; keep them within 32 bits
    aval = typeof(start)
    if aval.shape or not dtypes.is_integer(aval.dtype):
        raise DTypeError(f"{call}: start indices must be integer scalars; got {aval.str_long()}")
    if not wrap or aval.dtype.kind == "u":
        return start
    if dtypes.iinfo(aval.dtype).max < length:
        start = convert_element_type(start, np.dtype("int32"))
    return select(lt(start, 0), add(start, length), start)


def _starts(call: str, operand: Value, start_indices: Starts, wrap: bool | Sequence[bool],
            sizes: Sequence[int]) -> list[Value]:
    shape = typeof(operand).shape
    wraps = (wrap,) * len(shape) if isinstance(wrap, bool) else tuple(wrap)
    listed = _list_starts(call, start_indices, len(shape))
    if should_check_bounds(__file__):
        for axis, (s, d, w, n) in enumerate(zip(listed, shape, wraps, sizes)):
            check_index(call, s, d, axis, w, n)
    return [_count_from_front(call, s, d, w) for s, d, w in zip(listed, shape, wraps, strict=True)]


def dynamic_slice(operand: ArrayLike, start_indices: Starts, slice_sizes: Sequence[int], *,
                  allow_negative_indices: bool | Sequence[bool] = True) -> Array:
    """Return the window of `operand` that starts at `start_indices`.

    Args:
      operand: array `[d0, d1, ...]`.
      start_indices: one integer scalar for each axis, or a rank-1 array of them; may be traced.
      slice_sizes: the window's size on each axis; known integers.
      allow_negative_indices: whether a negative start counts from the end; one flag, or one per axis.
    Returns:
      Array of shape `slice_sizes`. A window that would leave the operand is moved back until it fits.
    Raises:
      ShapeError: the number of starts or sizes is not the rank, or a size exceeds its axis.

    Derivative: linear; the transpose writes the cotangent into zeros at the same position.
    Source: StableHLO `dynamic_slice`.

    >>> dynamic_slice(np.arange(5), (3,), (3,))
    Array([2, 3, 4], dtype=int32)
    """
    sizes = as_ints("dynamic_slice", "slice_sizes", slice_sizes)
    starts = _starts("dynamic_slice", operand, start_indices, allow_negative_indices, sizes)
    return bind(prims.dynamic_slice_p, operand, *starts, slice_sizes=sizes)


def dynamic_update_slice(operand: ArrayLike, update: ArrayLike, start_indices: Starts, *,
                         allow_negative_indices: bool | Sequence[bool] = True) -> Array:
    """Return `operand` with the window that starts at `start_indices` replaced by `update`.

    Args:
      operand: array `[d0, d1, ...]`.
      update: array of the same rank and dtype that fits inside.
      start_indices: one integer scalar for each axis, or a rank-1 array of them; may be traced.
      allow_negative_indices: whether a negative start counts from the end; one flag, or one per axis.
    Returns:
      Array of the operand's shape and dtype. A window that would leave the operand is moved back until it fits.
    Raises:
      ShapeError: ranks differ or the update is too large.
      DTypeError: dtypes differ.

    Derivative: linear in both.
    Source: StableHLO `dynamic_update_slice`.

    >>> dynamic_update_slice(np.zeros(4), np.ones(2), (1,))
    Array([0., 1., 1., 0.], dtype=float32)
    """
    starts = _starts("dynamic_update_slice", operand, start_indices, allow_negative_indices, typeof(update).shape)
    return bind(prims.dynamic_update_slice_p, operand, update, *starts)


@rename_errors
def dynamic_slice_in_dim(operand: ArrayLike, start_index: ArrayLike, slice_size: int, axis: int = 0, *,
                         allow_negative_indices: bool = True) -> Array:
    """`dynamic_slice` along one axis, whole along the others.

    Args:
      operand: array.
      start_index: integer of rank 0, may be traced; moved so that the slice is inside.
      slice_size: length of the slice, a known integer.
      axis: the axis; negative counts from the end.
      allow_negative_indices: whether a negative start counts from the end.

    >>> dynamic_slice_in_dim(np.arange(5), 1, 2)
    Array([1, 2], dtype=int32)
    """
    shape = typeof(operand).shape
    axis = check_axis("dynamic_slice_in_dim", axis, len(shape))
    starts: list[ArrayLike] = [0] * len(shape)
    starts[axis] = start_index
    sizes = list(shape)
    sizes[axis] = slice_size
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow_negative_indices)


@rename_errors
def dynamic_index_in_dim(operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True, *,
                         allow_negative_indices: bool = True) -> Array:
    """Return one position along one axis.

    Args:
      operand: array.
      index: integer of rank 0, may be traced; moved inside the axis.
      axis: the axis; negative counts from the end.
      keepdims: keep it as an axis of length 1.
      allow_negative_indices: whether a negative index counts from the end.

    >>> dynamic_index_in_dim(np.arange(5), 3, keepdims=False)
    Array(3, dtype=int32)
    """
    out = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return out if keepdims else squeeze(out, (check_axis("dynamic_index_in_dim", axis, len(typeof(out).shape)),))


@rename_errors
def dynamic_update_slice_in_dim(operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int, *,
                                allow_negative_indices: bool = True) -> Array:
    """`dynamic_update_slice` with a start along one axis and zero along the others.

    Args:
      operand: array.
      update: array of equal rank, not longer along any axis.
      start_index: integer of rank 0, may be traced; moved so that the update is inside.
      axis: the axis; negative counts from the end.
      allow_negative_indices: whether a negative start counts from the end.

    >>> dynamic_update_slice_in_dim(np.zeros(3), np.ones(1), 2, axis=0)
    Array([0., 0., 1.], dtype=float32)
    """
    ndim = len(typeof(operand).shape)
    starts: list[ArrayLike] = [0] * ndim
    starts[check_axis("dynamic_update_slice_in_dim", axis, ndim)] = start_index
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allow_negative_indices)


@rename_errors
def dynamic_update_index_in_dim(operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int, *,
                                allow_negative_indices: bool = True) -> Array:
    """Return `operand` with one position along one axis replaced.

    Args:
      operand: array.
      update: array of its shape with length 1 along `axis`, or without that axis.
      index: integer of rank 0, may be traced; moved inside the axis.
      axis: the axis; negative counts from the end.
      allow_negative_indices: whether a negative index counts from the end.
    Raises:
      ShapeError: `update` has another rank.

    >>> dynamic_update_index_in_dim(np.zeros(3), np.float32(1), 0, axis=0)
    Array([1., 0., 0.], dtype=float32)
    """
    ndim, given = len(typeof(operand).shape), typeof(update)
    axis = check_axis("dynamic_update_index_in_dim", axis, ndim)
    if len(given.shape) != ndim:
        if len(given.shape) != ndim - 1:
            raise ShapeError(f"dynamic_update_index_in_dim: the update has the operand's rank {ndim}, or one axis "
                             f"less; got {given.str_long()}")
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(operand, update, index, axis, allow_negative_indices=allow_negative_indices)


def _mode(call: str, mode: Mode) -> GatherScatterMode:
    try:
        return GatherScatterMode.from_any(mode)
    except ValueError as error:
        raise ValueError(f"{call}: {error}") from None


def _numbers(call: str, kind: Any, given: Unchecked) -> Any:
    """Return `given` as a `kind` of tuples of ints."""
    if not isinstance(given, kind):
        raise TypeError(f"{call}: dimension_numbers must be a lax.{kind.__name__}; got {type(given).__name__}: "
                        f"{given!r:.60}")
    return kind(*[as_ints(call, name, axes) for name, axes in given._asdict().items()])


def gather(operand: ArrayLike, start_indices: ArrayLike, dimension_numbers: GatherDimensionNumbers,
           slice_sizes: Sequence[int], *, unique_indices: bool = False, indices_are_sorted: bool = False,
           mode: Mode = None, fill_value: ArrayLike | None = None) -> Array:
    """Gather the windows of `operand` that start at the index vectors.

    Args:
      operand: array to read.
      start_indices: integer array `[..., k]` of index vectors.
      dimension_numbers: the meaning of each axis.
      slice_sizes: the window's size on each operand axis.
      unique_indices: promise that no two windows overlap.
      indices_are_sorted: promise that index vectors ascend.
      mode: 'clip' (None means this), 'fill' or 'promise_in_bounds': what to do with windows outside the operand.
      fill_value: for mode 'fill'; None means NaN, the lowest signed, or the highest unsigned number.
    Returns:
      Array whose axes are `offset_dims` of the window and, between them, those of `start_indices` but the last.

    Derivative: linear in `operand`; the transpose is `scatter_add`.
    Source: StableHLO `gather`.

    >>> dims = GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> gather(np.arange(5.), np.array([[3], [9]]), dims, (1,), mode="clip")
    Array([3., 4.], dtype=float32)
    """
    how = GatherScatterMode.CLIP if mode is None else _mode("gather", mode)
    dims = _numbers("gather", GatherDimensionNumbers, dimension_numbers)
    if fill_value is not None:
        if np.ndim(fill_value):
            raise ValueError(f"gather: fill_value must be one number; got {type(fill_value).__name__}: {fill_value!r:.60}")
        if how is not GatherScatterMode.FILL_OR_DROP:
            fill_value = None
    if mode is None and should_check_bounds(__file__):
        shape = typeof(operand).shape
        axes = dims.start_index_map
        check_index_vectors("gather", start_indices, [shape[a] - int(slice_sizes[a]) for a in axes], axes)
    return bind(prims.gather_p, operand, start_indices, dimension_numbers=dims, fill_value=fill_value,
                indices_are_sorted=bool(indices_are_sorted), mode=how,
                slice_sizes=as_ints("gather", "slice_sizes", slice_sizes), unique_indices=bool(unique_indices))


def _scatter_function(prim: Primitive, verb: str, derivative: str, result: str) -> Function:
    # The functions differ only in the primitive and the docstring.
    def scatter_like(operand: ArrayLike, scatter_indices: ArrayLike, updates: ArrayLike,
                     dimension_numbers: ScatterDimensionNumbers, *, indices_are_sorted: bool = False,
                     unique_indices: bool = False, mode: Mode = None) -> Array:
        dims = _numbers(prim.name, ScatterDimensionNumbers, dimension_numbers)
        if mode is None and should_check_bounds(__file__):
            shape, window = typeof(operand).shape, iter([typeof(updates).shape[a] for a in dims.update_window_dims])
            sizes = [1 if a in (*dims.inserted_window_dims, *dims.operand_batching_dims) else next(window)
                     for a in range(len(shape))]
            into = dims.scatter_dims_to_operand_dims
            check_index_vectors(prim.name, scatter_indices, [shape[a] - sizes[a] for a in into], into)
        return bind(prim, operand, scatter_indices, updates, dimension_numbers=dims,
                    indices_are_sorted=bool(indices_are_sorted), mode=_mode(prim.name, mode),
                    unique_indices=bool(unique_indices))

    return set_public_name(scatter_like, prim.name, f"""Return `operand` with windows of `updates` {verb} at index vectors.

    Args:
      operand: array to start from.
      scatter_indices: integer array `[..., k]` of index vectors.
      updates: array of the operand's dtype: a window for each index vector.
      dimension_numbers: the meaning of each axis.
      indices_are_sorted: promise that index vectors ascend.
      unique_indices: promise that no two windows overlap.
      mode: 'clip', 'drop' (None means this) or 'promise_in_bounds': what to do with windows outside the operand.
    Returns:
      Array of the operand's shape and dtype.

    Derivative: {derivative}
    Source: StableHLO `scatter`.

    >>> dims = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> {prim.name}(np.full(3, 2.), np.array([[1]]), np.array([5.]), dims)
    Array({result}, dtype=float32)
    """)


scatter = _scatter_function(prims.scatter_p, "written", "linear in both; where windows overlap, that of the window "
                            "that was written last.", "[2., 5., 2.]")
scatter_add = _scatter_function(prims.scatter_add_p, "added", "linear in both.", "[2., 7., 2.]")
scatter_mul = _scatter_function(prims.scatter_mul_p, "multiplied in", "the product of all other factors.",
                                "[ 2., 10.,  2.]")
scatter_min = _scatter_function(prims.scatter_min_p, "combined by minimum", "that of the smallest; equal ones share it.",
                                "[2., 2., 2.]")
scatter_max = _scatter_function(prims.scatter_max_p, "combined by maximum", "that of the largest; equal ones share it.",
                                "[2., 5., 2.]")


@rename_errors
def scatter_sub(operand: ArrayLike, scatter_indices: ArrayLike, updates: ArrayLike,
                dimension_numbers: ScatterDimensionNumbers, *, indices_are_sorted: bool = False,
                unique_indices: bool = False, mode: Mode = None) -> Array:
    """`scatter_add` of the negated updates."""
    return scatter_add(operand, scatter_indices, neg(updates), dimension_numbers, mode=mode,
                       indices_are_sorted=indices_are_sorted, unique_indices=unique_indices)


@rename_errors
def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """Take positions of `src` by one rank-1 index array for each of `axes`; indices count modulo the axis length.

    Args:
      src: array to read.
      idxs: rank-1 integer arrays of one length `n`.
      axes: one axis of `src` for each of them.
    Returns:
      Array `[n, ...]`: the positions first, then the axes of `src` that were not indexed.

    >>> index_take(np.arange(6.).reshape(2, 3), (np.array([0, 1]), np.array([2, -1])), (0, 1))
    Array([2., 5.], dtype=float32)
    """
    shape = typeof(src).shape
    axes = check_axes("index_take", axes, len(shape))
    if len(axes) != len(idxs) or not axes:
        raise ShapeError(f"index_take: needs one index array for each axis, and at least one; got {len(idxs)} for axes "
                         f"{axes}")
    columns = []
    for index, axis in zip(idxs, axes, strict=True):
        n = shape[axis]
        if not dtypes.is_integer(typeof(index).dtype):
            raise DTypeError(f"index_take: indices must be integers; got {typeof(index).str_long()}")
        index = convert_element_type(index, np.dtype("int32"))
        columns.append(reshape(rem(add(rem(index, n), n), n), (*typeof(index).shape, 1)))
    indices = columns[0] if len(columns) == 1 else concatenate(columns, 1)
    dims = GatherDimensionNumbers(offset_dims=tuple(range(1, 1 + len(shape) - len(axes))),
                                  collapsed_slice_dims=tuple(sorted(axes)), start_index_map=axes)
    sizes = tuple(1 if a in axes else d for a, d in enumerate(shape))
    return gather(src, indices, dims, sizes, mode=GatherScatterMode.PROMISE_IN_BOUNDS)
