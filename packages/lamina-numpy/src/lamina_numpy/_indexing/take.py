"""Picking and placing elements by position along one axis."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, ShapeError, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import check_axis, check_index, is_axis_name, typeof
from lamina_tracing.lax import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

from .._core.promotion import aval, cast, check_cast
from .._core.named_axes import along_axis, gather_to_front
from .._core.public_api import public_api
from .._shape.layout import ravel, reshape
from .bounds import is_check_enabled
from .parse import FULL, MANY, Plan, POINT
from .gather import CLIP, FILL, count_from_front, read

__all__ = ["put_along_axis", "take", "take_along_axis"]


def _to_integers(call: str, indices: Any) -> Any:
    if isinstance(indices, (list, tuple)):
        raise TypeError(f"{call}: indices must be an array or an integer; got {type(indices).__name__}. Write "
                        "numpy.array(indices)")
    found = aval(call, indices, 1)
    if call == "take" and dtypes.is_bool(found.dtype):  # 0 and 1, as in NumPy
        return lax.convert_element_type(indices, dtypes.canonical_int())
    if not dtypes.is_integer(found.dtype):
        raise DTypeError(f"{call}: indices must be integers; got {found.str_long()}. Convert with astype(int)")
    return indices


def _parse_mode(call: str, mode: Any) -> GatherScatterMode:
    if mode == "raise":
        raise NotImplementedError(f"{call}: mode 'raise' is not offered, since compiled programs raise no errors; use "
                                  "'fill', 'clip', 'wrap' or 'promise_in_bounds'")
    return GatherScatterMode.PROMISE_IN_BOUNDS if mode == "wrap" else GatherScatterMode.from_any(mode)


@public_api("axis", "out", "mode", "unique_indices", "indices_are_sorted", "fill_value")
def take(a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: None = None, mode: Any = None,
         unique_indices: bool = False, indices_are_sorted: bool = False, fill_value: ArrayLike | None = None) -> Array:
    """Elements of `a` along one axis, at integer positions.

    Args:
      a: array `[..., n, ...]`.
      indices: integers of any shape.
      axis: the axis of length `n`; None flattens `a` first. Or the name of a mapped one: the axes of `indices` come first.
      out: not supported, must be None.
      mode: for positions outside: 'fill' (the default; negative ones count from the end), 'clip' (negative ones read
        the first), 'wrap' (modulo `n`) or 'promise_in_bounds'.
      unique_indices: promise that positions differ.
      indices_are_sorted: promise that positions ascend.
      fill_value: for mode 'fill'; None means NaN, or the lowest signed or highest unsigned integer.
    Returns:
      Array `[..., *indices.shape, ...]`.
    Raises:
      DTypeError: `indices` are no integers.

    Source: meaning of `numpy.take`.

    >>> from lamina_numpy import arange, array
    >>> take(arange(5.), array([0, -1, 7]))
    Array([ 0.,  4., nan], dtype=float32)
    """
    if out is not None:
        raise NotImplementedError("take: `out` is not supported, since arrays never change; use the result")
    indices = _to_integers("take", indices)
    aval("take", a)
    if type(axis) is not int and is_axis_name(axis):
        a, axis = gather_to_front(a, (axis,)), 0
    if axis is None:
        a, axis = ravel(a), 0
    shape = typeof(a).shape
    axis = check_axis("take", axis, len(shape))
    n, how = shape[axis], _parse_mode("take", mode)
    if not n and 0 not in typeof(indices).shape:
        raise IndexError(f"take: an axis of length 0 has no elements; got axis {axis} of {typeof(a).str_long()}")
    wrap = how is not CLIP
    if mode is None and is_check_enabled():
        check_index("take", indices, n, axis)
    if mode == "wrap":
        indices = _wrap_indices(indices, n)
    elif type(indices) is np.ndarray and indices.size and how is FILL and indices.min() >= -n and indices.max() < n:
        how = CLIP  # known to be inside
    part = (MANY,) if typeof(indices).shape else (POINT,)
    parts = [(FULL,)] * axis + [part] + [(FULL,)] * (len(shape) - axis - 1)
    return read(Plan(tuple(parts), True, False, False), how, fill_value, (indices_are_sorted, unique_indices), wrap, a,
                indices + n if type(indices) is int and indices < 0 and wrap else indices)


def _wrap_indices(indices: Any, n: int) -> Any:
    indices = lax.convert_element_type(indices, dtypes.canonical_int())
    return lax.rem(lax.add(lax.rem(indices, n), n), n)


@public_api("axis", "mode", "fill_value")
@along_axis(arrays=2)
def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1, mode: Any = None,
                    fill_value: ArrayLike | None = None) -> Array:
    """Elements along one axis, at positions given for each place on the other axes.

    Args:
      arr: array `[..., n, ...]` of any dtype.
      indices: integer array of the same rank; its other axes broadcast with those of `arr`. Negative ones count from
        the end.
      axis: the axis of length `n`; negative counts from the end. None flattens `arr` first. Or the name of a mapped axis:
        `indices` are then positions along it.
      mode: for positions outside: 'fill' (the default), 'clip', 'wrap' (modulo `n`) or 'promise_in_bounds'.
      fill_value: for mode 'fill'; None means NaN, or the lowest signed or highest unsigned integer.
    Returns:
      Array of the rank of `arr`, as long along the axis as `indices`; dtype and units of `arr`.
    Raises:
      ShapeError: `arr` and `indices` differ in rank or do not broadcast, or `axis` is outside `[-arr.ndim, arr.ndim)`.
      DTypeError: `indices` holds no integers.
      TypeError: `indices` is a list, or `arr` neither an array nor a number.
      IndexError: the axis has length 0, in another mode than 'fill'.
      NotImplementedError: `mode` is 'raise'; compiled programs raise no errors.
      ValueError: another `mode`.

    Derivative: linear in `arr`; the transpose adds at the positions.
    Source: meaning of `numpy.take_along_axis`.

    >>> take_along_axis(np.array([[1., 2.], [3., 4.]]), np.array([[1], [0]]), axis=1)
    Array([[2.],
           [3.]], dtype=float32)
    """
    indices = _to_integers("take_along_axis", indices)
    if axis is None:
        arr, axis = ravel(arr), 0
    x_aval, i_aval = aval("take_along_axis", arr), typeof(indices)
    shape, seen = x_aval.shape, i_aval.shape
    axis = check_axis("take_along_axis", axis, len(shape))
    if len(shape) != len(seen) or any(n != m and n != 1 and m != 1 for a, (n, m) in
                                      enumerate(zip(shape, seen, strict=True)) if a != axis):
        raise ShapeError(f"take_along_axis: arr and indices must have one rank, and axes other than {axis} must "
                         f"broadcast; got {x_aval.str_long()} and {i_aval.str_long()}")
    how = _parse_mode("take_along_axis", mode)
    if mode is None and is_check_enabled():
        check_index("take_along_axis", indices, shape[axis], axis)
    indices = _wrap_indices(indices, shape[axis]) if mode == "wrap" else count_from_front(indices, shape[axis])
    x_gone: list[int] = []  # see the cases below
    i_gone: list[int] = []
    offset, x_batch, i_batch = [], [], []
    for a, (n, m) in enumerate(zip(shape, seen, strict=True)):
        x_at, i_at = a - len(x_gone), a - len(i_gone)
        if a == axis:
            along = x_at
        elif n == 1:  # arr stretches: only indices keep the axis
            x_gone.append(a)
        elif m == 1:  # indices stretch: each window runs along the axis
            i_gone.append(a)
            offset.append(a)
        else:  # both walk together
            x_batch.append(x_at)
            i_batch.append(i_at)
    arr = lax.squeeze(arr, x_gone) if x_gone else arr
    indices = lax.squeeze(indices, i_gone) if i_gone else indices
    left = typeof(arr).shape
    if left[along] == 0 and how is not FILL and 0 not in seen:
        raise IndexError(f"take_along_axis: axis {axis} of length 0 has no positions; got {x_aval.str_long()}")
    dims = GatherDimensionNumbers(tuple(offset), (along,), (along,), tuple(x_batch), tuple(i_batch))
    sizes = tuple(1 if a == along else min(n, 1) if a in x_batch else n for a, n in enumerate(left))
    if left[along] == 0:
        arr = lax.pad(arr, np.zeros((), x_aval.dtype)[()], [(0, int(a == along), 0) for a in range(len(left))])
        indices = lax.full_like(indices, 1)
    return lax.gather(arr, lax.expand_dims(indices, (typeof(indices).ndim,)), dims, sizes, mode=how,
                      fill_value=fill_value)


@public_api("axis", "inplace", "mode")
def put_along_axis(arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None, inplace: bool = True, *,
                   mode: Any = None) -> Array:
    """A copy of an array with elements along one axis replaced, place by place.

    Args:
      arr: array `[..., n, ...]` of any dtype.
      indices: integer array of the same rank; its other axes broadcast to those of `arr`. Negative ones count from the
        end.
      values: what to put; broadcasts to `indices`, and becomes elements of the dtype of `arr`.
      axis: the axis of length `n`; negative counts from the end. None flattens `arr` for the purpose.
      inplace: must be False: arrays never change.
      mode: for positions outside: 'drop' (the default), 'clip', 'wrap' (modulo `n`) or 'promise_in_bounds'.
    Returns:
      Array of the shape, dtype and units of `arr`; of positions named twice some value stays.
    Raises:
      ValueError: `inplace` is True, or another `mode`.
      ShapeError: `arr` and `indices` differ in rank, `indices` or `values` do not broadcast, or `axis` is outside
        `[-arr.ndim, arr.ndim)`.
      DTypeError: `indices` holds no integers.
      TypeError: `indices` is a list, or another argument neither an array nor a number.
      NotImplementedError: `mode` is 'raise'; compiled programs raise no errors.

    Source: meaning of `numpy.put_along_axis`, which changes `arr` and refuses positions outside.

    >>> put_along_axis(np.zeros((2, 2)), np.array([[1], [0]]), 5., axis=1, inplace=False)
    Array([[0., 5.],
           [5., 0.]], dtype=float32)
    """
    if inplace:
        raise ValueError("put_along_axis: arrays never change; pass inplace=False and use the result")
    indices = _to_integers("put_along_axis", indices)
    whole = aval("put_along_axis", arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    shape, dtype = typeof(arr).shape, typeof(arr).dtype
    axis = check_axis("put_along_axis", axis, len(shape))
    seen = typeof(indices).shape
    if len(seen) != len(shape):
        raise ShapeError(f"put_along_axis: arr and indices must have one rank; got {whole.str_long()} and "
                         f"{typeof(indices).str_long()}")
    if mode is None and is_check_enabled():
        check_index("put_along_axis", indices, shape[axis], axis)
    check_cast("put_along_axis", arr, values)
    target = tuple(m if a == axis else n for a, (n, m) in enumerate(zip(shape, seen, strict=True)))
    indices = _wrap_indices(indices, shape[axis]) if mode == "wrap" else count_from_front(indices, shape[axis])
    indices, values = _stretch(indices, target), _stretch(cast(values, dtype), target)
    others = tuple(a for a in range(len(shape)) if a != axis)
    dims = ScatterDimensionNumbers((), (axis,), (axis,), others, others)
    out = lax.scatter(arr, lax.expand_dims(indices, (len(shape),)), values, dims,
                      mode=_parse_mode("put_along_axis", mode))
    return out if whole.shape == shape else reshape(out, whole.shape)


def _stretch(x: Any, shape: tuple[int, ...]) -> Any:
    have = typeof(x).shape
    if have == shape:
        return x
    lead = len(shape) - len(have)
    if lead < 0 or any(n != 1 and n != m for n, m in zip(have, shape[lead:], strict=True)):
        raise ShapeError(f"put_along_axis: indices and values must broadcast to {list(shape)}; got {typeof(x).str_long()}")
    ones = [a for a, n in enumerate(have) if n == 1 and shape[lead + a] != 1]
    dims = [lead + a for a in range(len(have)) if a not in ones]
    return lax.broadcast_in_dim(lax.squeeze(x, ones) if ones else x, shape, dims)
