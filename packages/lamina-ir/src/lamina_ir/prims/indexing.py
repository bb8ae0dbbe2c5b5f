"""Read and write windows of an array at positions that are known only at run time.

`gather` and the `scatter` family address windows in the same way: `indices[..., :]` holds the start of a window, and
`_windows` computes the position in the operand of each element of each window.
"""
from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._types.param_values import register_param_type
from .._core.param_types import KINDS, is_enum_of, is_ints
from .._core.primitive import Primitive
from ..typing import Function, ParamValue, Value

__all__ = ["GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "dynamic_slice_p",
           "dynamic_update_slice_p", "gather_fill", "gather_p", "scatter_add_p", "scatter_max_p", "scatter_min_p",
           "scatter_mul_p", "scatter_p"]


@register_param_type
class GatherScatterMode(enum.Enum):
    """How windows that are not fully inside the operand are handled.

    CLIP moves the window's start to the nearest position where it fits. FILL_OR_DROP makes `gather` return the fill
    value and `scatter` skip the window. PROMISE_IN_BOUNDS asserts that all windows are inside (otherwise the result is
    unspecified). A negative start never counts from the end; callers that want that must convert it.
    """

    CLIP = "clip"
    FILL_OR_DROP = "fill_or_drop"
    PROMISE_IN_BOUNDS = "promise_in_bounds"

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """Convert a mode or its name to a `GatherScatterMode`; None means FILL_OR_DROP.

        >>> GatherScatterMode.from_any("drop")
        GatherScatterMode.FILL_OR_DROP
        """
        found = _MODES.get(mode)
        if found is None:
            raise ValueError(f"mode: expected 'clip', 'fill', 'drop', 'promise_in_bounds' or a GatherScatterMode; "
                             f"got {mode!r}")
        return found

    @override
    def __repr__(self) -> str:
        return f"GatherScatterMode.{self.name}"

    __str__ = __repr__


CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS = GatherScatterMode
_MODES: dict[object, GatherScatterMode] = {
    None: FILL_OR_DROP, "fill": FILL_OR_DROP, "drop": FILL_OR_DROP, "fill_or_drop": FILL_OR_DROP, "clip": CLIP,
    "promise_in_bounds": PROMISE_IN_BOUNDS, **{mode: mode for mode in GatherScatterMode}}


@register_param_type
class GatherDimensionNumbers(NamedTuple):
    """The roles of axes in `gather`; see StableHLO `gather`. `indices` has its index vectors on the last axis.

    Args:
      offset_dims: result axes that run over a window, ascending.
      collapsed_slice_dims: operand axes of window size 1 that leave no result axis.
      start_index_map: operand axis addressed by each component of an index vector.
      operand_batching_dims: operand axes walked together with `start_indices_batching_dims`.
      start_indices_batching_dims: axes of `indices`, one for each of `operand_batching_dims`.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


@register_param_type
class ScatterDimensionNumbers(NamedTuple):
    """The roles of axes in the `scatter` family: the counterpart of `GatherDimensionNumbers`.

    Args:
      update_window_dims: axes of the updates that run over a window, ascending.
      inserted_window_dims: operand axes of window size 1 that have no axis in the updates.
      scatter_dims_to_operand_dims: operand axis addressed by each component of an index vector.
      operand_batching_dims: operand axes walked together with `scatter_indices_batching_dims`.
      scatter_indices_batching_dims: axes of the indices, one for each of `operand_batching_dims`.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


def gather_fill(dtype: np.dtype, fill_value: Value = None) -> Value:
    """Return the scalar that `gather` gives outside the operand: NaN, the lowest signed integer, or the highest
    unsigned integer or bool. For keys it is the fill value of their uint32 data."""
    if dtypes.is_key(dtype):
        return np.full(dtypes.key_size(dtype), np.iinfo(np.uint32).max, np.uint32).view(dtype)[0]
    if fill_value is None:
        if dtypes.is_inexact(dtype):
            fill_value = np.nan
        elif dtypes.is_bool(dtype):
            fill_value = True
        else:
            info = dtypes.iinfo(dtype)
            fill_value = info.min if int(info.min) < 0 else info.max
    return np.asarray(fill_value).astype(dtype)[()]


# --- types -------------------------------------------------------------------------------------------------------


def _check_starts(call: str, x: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != len(x.shape):
        raise ShapeError(f"{call}: needs one start index for each axis of {x.str_long()}; got {len(starts)}")
    for s in starts:
        if s.shape or not dtypes.is_integer(s.dtype):
            raise DTypeError(f"{call}: start indices must be integer scalars; got {s.str_long()}")


def _dynamic_slice_infer(x: ShapedArray, *starts: ShapedArray, slice_sizes: tuple[int, ...]) -> ShapedArray:
    _check_starts("dynamic_slice", x, starts)
    if len(slice_sizes) != len(x.shape) or any(not 0 <= s <= d for s, d in zip(slice_sizes, x.shape, strict=True)):
        # StableHLO dynamic_slice C4
        raise ShapeError(f"dynamic_slice: slice_sizes must give each axis of {x.str_long()} a size between 0 and its "
                         f"length; got {slice_sizes}")
    return shaped(slice_sizes, x.dtype, x.weak_type)


def _dynamic_update_slice_infer(x: ShapedArray, update: ShapedArray, *starts: ShapedArray) -> ShapedArray:
    _check_starts("dynamic_update_slice", x, starts)
    if update.dtype != x.dtype:
        raise DTypeError(f"dynamic_update_slice: operand and update must have one dtype; got {x.str_long()} and "
                         f"{update.str_long()}. Convert the update first.")
    if len(update.shape) != len(x.shape) or any(u > d for u, d in zip(update.shape, x.shape, strict=True)):
        # StableHLO dynamic_update_slice C3-C6
        raise ShapeError(f"dynamic_update_slice: the update must have the operand's rank and fit inside it; got "
                         f"{update.str_long()} for {x.str_long()}")
    return x


def _axes_ok(axes: Sequence[int], ndim: int) -> bool:
    return all(0 <= a < ndim for a in axes) and len(set(axes)) == len(axes)


def _ascending(axes: Sequence[int]) -> bool:
    return all(a < b for a, b in zip(axes, axes[1:], strict=False))


def _format_dims(dims: GatherDimensionNumbers | ScatterDimensionNumbers) -> str:
    """Return the fields of dimension numbers that are not empty, for messages."""
    return ", ".join([f"{name} {axes}" for name, axes in dims._asdict().items() if axes]) or "no dimension numbers"


def _check_dims(call: str, x: ShapedArray, indices: ShapedArray, window_dims: tuple[int, ...],
                removed: tuple[int, ...], index_map: tuple[int, ...], x_batch: tuple[int, ...],
                i_batch: tuple[int, ...],
                dims: GatherDimensionNumbers | ScatterDimensionNumbers) -> None:
    """Check the constraints on dimension numbers that StableHLO `gather` and `scatter` share."""
    def fail(problem: str) -> None:
        raise ShapeError(f"{call}: {problem}; got {_format_dims(dims)} for operand {x.str_long()}, indices "
                         f"{indices.str_long()}")

    ndim, index_ndim = len(x.shape), len(indices.shape)
    if not dtypes.is_integer(indices.dtype):
        raise DTypeError(f"{call}: indices must be integers; got {indices.str_long()}")
    if not index_ndim:
        fail("indices need an axis, the last, that holds index vectors")
    if indices.shape[-1] != len(index_map):
        fail(f"index vectors have length {indices.shape[-1]} but {len(index_map)} operand axes are addressed")
    if not (_axes_ok(removed + x_batch, ndim) and _ascending(removed) and _axes_ok(index_map + x_batch, ndim)):
        fail("axis lists must name each operand axis at most once, removed axes in ascending order")
    if len(x_batch) != len(i_batch) or not _axes_ok(i_batch, index_ndim - 1) or any(
            x.shape[a] != indices.shape[b] for a, b in zip(x_batch, i_batch, strict=False)):
        fail("batching axes of operand and indices must come in pairs of equal length")
    if len(window_dims) != ndim - len(removed) - len(x_batch):
        fail(f"{ndim - len(removed) - len(x_batch)} window axes remain, {len(window_dims)} are named")
    if not (_ascending(window_dims) and _axes_ok(window_dims, len(window_dims) + index_ndim - 1)):
        fail("window axes must be ascending and in range")


def _gather_infer(x: ShapedArray, indices: ShapedArray, *, dimension_numbers: GatherDimensionNumbers,
                  slice_sizes: tuple[int, ...], **_: ParamValue) -> ShapedArray:
    offset, collapsed, index_map, x_batch, i_batch = dimension_numbers
    _check_dims("gather", x, indices, offset, collapsed, index_map, x_batch, i_batch, dimension_numbers)
    if len(slice_sizes) != len(x.shape) or any(not 0 <= s <= d for s, d in zip(slice_sizes, x.shape, strict=True)):
        # StableHLO gather C17
        raise ShapeError(f"gather: slice_sizes must give each axis of {x.str_long()} a size between 0 and its length; "
                         f"got {slice_sizes}")
    removed = frozenset(collapsed + x_batch)
    # A collapsed axis of slice size 0 would leave nothing to read. A batching axis may be empty: then there are no
    # windows.
    if any(slice_sizes[a] > 1 for a in x_batch) or any(slice_sizes[a] != 1 for a in collapsed):
        # StableHLO gather C10-C13
        raise ShapeError(f"gather: collapsed and batching axes must have slice size 1; got slice_sizes {slice_sizes} "
                         f"with {_format_dims(dimension_numbers)}")
    window = iter([s for a, s in enumerate(slice_sizes) if a not in removed])
    batch = iter(indices.shape[:-1])
    ndim = len(offset) + len(indices.shape) - 1
    return shaped(tuple(next(window if a in offset else batch) for a in range(ndim)), x.dtype, x.weak_type)


def _scatter_infer(call: str, x: ShapedArray, indices: ShapedArray, updates: ShapedArray,
                   dims: ScatterDimensionNumbers) -> ShapedArray:
    window, inserted, index_map, x_batch, i_batch = dims
    _check_dims(call, x, indices, window, inserted, index_map, x_batch, i_batch, dims)
    if updates.dtype != x.dtype:
        raise DTypeError(f"{call}: operand and updates must have one dtype; got {x.str_long()} and {updates.str_long()}. "
                         "Convert the updates first.")
    batch = tuple(d for a, d in enumerate(updates.shape) if a not in window)
    if len(updates.shape) != len(window) + len(indices.shape) - 1 or batch != indices.shape[:-1]:
        # StableHLO scatter C4
        raise ShapeError(f"{call}: axes of the updates outside update_window_dims must be those of the indices without "
                         f"the last; got updates {updates.str_long()}, indices {indices.str_long()}, {_format_dims(dims)}")
    removed = frozenset(inserted + x_batch)
    limits = [d for a, d in enumerate(x.shape) if a not in removed]
    if any(updates.shape[w] > d for w, d in zip(window, limits, strict=True)):
        # StableHLO scatter C4
        raise ShapeError(f"{call}: a window must fit inside the operand; got updates {updates.str_long()} with window axes "
                         f"{window} for {x.str_long()}")
    return x


# --- NumPy implementations ---------------------------------------------------------------------------------------


def _windows(shape: tuple[int, ...], indices: np.ndarray, sizes: Sequence[int], index_map: tuple[int, ...],
             x_batch: tuple[int, ...], i_batch: tuple[int, ...], mode: GatherScatterMode,
             ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Compute the position of each window element: one array per operand axis, which broadcast to shape `batch +
    sizes`. Also return a mask of the windows that are inside; it is all true unless the mode is FILL_OR_DROP."""
    batch = indices.shape[:-1]
    inside = np.ones(batch, bool)
    positions = []
    for axis, (length, size) in enumerate(zip(shape, sizes, strict=True)):
        if axis in index_map:
            start = indices[..., index_map.index(axis)]
            # Clamp values that do not fit in int64 to any position outside.
            if start.dtype == np.uint64:
                start = np.minimum(start, np.uint64(length + 1))
            start = start.astype(np.int64)
            inside &= (start >= 0) & (start <= length - size)
            start = np.clip(start, 0, length - size)
        elif axis in x_batch:
            at = i_batch[x_batch.index(axis)]  # along a batching axis the position is the batch index
            start = np.arange(length).reshape([-1 if a == at else 1 for a in range(len(batch))])
        else:
            start = np.zeros((1,) * len(batch), np.int64)
        step = np.arange(size).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        positions.append(start.reshape(start.shape + (1,) * len(shape)) + step)
    return tuple(positions), inside if mode is FILL_OR_DROP else np.ones(batch, bool)


def _gather_numpy(x: np.ndarray, indices: np.ndarray, *, dimension_numbers: GatherDimensionNumbers,
                  slice_sizes: tuple[int, ...], mode: GatherScatterMode, fill_value: Value,
                  **_: ParamValue) -> np.ndarray:
    offset, collapsed, index_map, x_batch, i_batch = dimension_numbers
    batch, removed = indices.shape[:-1], collapsed + x_batch
    positions, inside = _windows(x.shape, indices, slice_sizes, index_map, x_batch, i_batch, mode)
    if 0 in batch + tuple(slice_sizes):  # empty result; removed axes keep length 1 for the reshape below
        found = np.zeros(batch + tuple(1 if a in removed else s for a, s in enumerate(slice_sizes)), x.dtype)
    else:
        found = np.broadcast_to(x[positions], batch + tuple(slice_sizes))
    found = np.where(inside.reshape(batch + (1,) * x.ndim), found, gather_fill(x.dtype, fill_value)).astype(x.dtype)
    out = found.reshape(batch + tuple(s for a, s in enumerate(slice_sizes) if a not in removed))
    return np.moveaxis(out, range(len(batch), out.ndim), offset)


def _scatter_numpy(combine: Function) -> Callable[..., np.ndarray]:
    def implementation(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, *,
                       dimension_numbers: ScatterDimensionNumbers, mode: GatherScatterMode,
                       **_: ParamValue) -> np.ndarray:
        window, inserted, index_map, x_batch, i_batch = dimension_numbers
        batch = indices.shape[:-1]
        updates = np.moveaxis(updates, window, range(len(batch), updates.ndim))
        lengths = iter(updates.shape[len(batch):])
        sizes = tuple(1 if a in inserted + x_batch else next(lengths) for a in range(x.ndim))
        out = x.copy()
        if updates.size == 0 or x.size == 0:  # nothing to write, or no position to write to
            return out
        positions, inside = _windows(x.shape, indices, sizes, index_map, x_batch, i_batch, mode)
        keep = np.broadcast_to(inside.reshape(batch + (1,) * x.ndim), batch + sizes)
        where = tuple(np.broadcast_to(p, batch + sizes)[keep] for p in positions)
        combine(out, where, updates.reshape(batch + sizes)[keep])
        return out
    return implementation


def _assign(out: np.ndarray, where: tuple[np.ndarray, ...], values: np.ndarray) -> None:
    out[where] = values  # for duplicate positions the last value wins; other implementations may choose another


def _starts_numpy(starts: Sequence[Value], shape: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    firsts = [min(max(int(s), 0), d - n) for s, d, n in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(s, s + n) for s, n in zip(firsts, sizes, strict=True))


def _dynamic_slice_numpy(x: np.ndarray, *starts: Value, slice_sizes: tuple[int, ...]) -> np.ndarray:
    return x[_starts_numpy(starts, x.shape, slice_sizes)].copy()


def _dynamic_update_slice_numpy(x: np.ndarray, update: np.ndarray, *starts: Value) -> np.ndarray:
    out = x.copy()
    out[_starts_numpy(starts, x.shape, update.shape)] = update
    return out


# --- primitives --------------------------------------------------------------------------------------------------
KINDS["gather numbers"] = ("a record `GatherDimensionNumbers` of tuples of ints",
                           lambda v: type(v) is GatherDimensionNumbers and all(map(is_ints, v)))
KINDS["scatter numbers"] = ("a record `ScatterDimensionNumbers` of tuples of ints",
                            lambda v: type(v) is ScatterDimensionNumbers and all(map(is_ints, v)))
KINDS["mode"] = ("an enum `GatherScatterMode`", is_enum_of(GatherScatterMode))


def _scatter_like(name: str, combine: Function, linear_in: Sequence[int] = ()) -> Primitive:
    def infer(x: ShapedArray, indices: ShapedArray, updates: ShapedArray, *,
              dimension_numbers: ScatterDimensionNumbers, **_: ParamValue) -> ShapedArray:
        return _scatter_infer(name, x, indices, updates, dimension_numbers)

    return Primitive(name, infer=infer, numpy=_scatter_numpy(combine), linear_in=linear_in, family="indexing",
                     params=("dimension_numbers", "indices_are_sorted", "mode", "unique_indices"), spec="scatter",
                     kinds={"dimension_numbers": "scatter numbers", "mode": "mode"})


dynamic_slice_p = Primitive("dynamic_slice", params=("slice_sizes",), infer=_dynamic_slice_infer,
                            numpy=_dynamic_slice_numpy, linear_in=(0,), family="indexing", spec="dynamic_slice")
dynamic_update_slice_p = Primitive("dynamic_update_slice", infer=_dynamic_update_slice_infer,
                                   numpy=_dynamic_update_slice_numpy, linear_in=(0, 1), family="indexing",
                                   spec="dynamic_update_slice")
# Not `linear_in`: outside the operand the result is the fill value, so the derivative needs its own rule.
gather_p = Primitive("gather", infer=_gather_infer, numpy=_gather_numpy, family="indexing", spec="gather",
                     kinds={"dimension_numbers": "gather numbers", "mode": "mode"},
                     params=("dimension_numbers", "fill_value", "indices_are_sorted", "mode", "slice_sizes",
                             "unique_indices"))
scatter_p = _scatter_like("scatter", _assign)
scatter_add_p = _scatter_like("scatter_add", np.add.at, linear_in=(0, 2))
scatter_mul_p = _scatter_like("scatter_mul", np.multiply.at)
scatter_min_p = _scatter_like("scatter_min", np.minimum.at)
scatter_max_p = _scatter_like("scatter_max", np.maximum.at)
