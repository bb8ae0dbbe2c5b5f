"""Repeating as a whole, rolling, resizing."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, AxisLike, lax, ShapeLike
from lamina_tracing.extend import check_axes, check_axis, typeof

from .._core.promotion import aval, broadcast, cast, literal, make_constant
from .._core.public_api import jitted_core, to_hashable
from .._core.axes import as_shape, split_at
from .._core.conversion import asarray
from .._core.named_axes import along_axis
from .._elementwise.division import remainder
from .layout import ravel, reshape

__all__ = ["resize", "roll", "tile"]


def tile(A: ArrayLike, reps: Any) -> Array:
    """An array repeated as a whole along axes.

    Args:
      A: array or number, of any dtype.
      reps: an int, or one per axis, counted from the last; where it names more axes than `A` has, new ones come in
        front. Known while tracing.
    Returns:
      Array with each axis `reps` times as long, and the dtype and units of `A`.
    Raises:
      ValueError: `reps` is negative.
      TypeError: `reps` holds no integers, or `A` is neither an array nor a number.

    Derivative: linear; the transpose is a sum over the repetitions.
    Source: meaning of `numpy.tile`.

    >>> tile(np.array([1, 2]), 2)
    Array([1, 2, 1, 2], dtype=int32)
    >>> tile(np.array([1, 2]), (2, 1))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    return tile_core(A, as_shape("tile", reps, "reps"))


@jitted_core("reps", name="tile")
def tile_core(A: Any, reps: tuple[int, ...]) -> Any:
    sizes = aval("tile", A).shape
    n = max(len(sizes), len(reps))
    sizes = (1,) * (n - len(sizes)) + sizes
    reps = (1,) * (n - len(reps)) + reps
    split_shape = tuple(d for pair in zip((1,) * n, sizes) for d in pair)
    wide = tuple(d for pair in zip(reps, sizes) for d in pair)
    out = reshape(A, split_shape)
    return reshape(broadcast(out, split_shape, wide), tuple(r * s for r, s in zip(reps, sizes)))


@along_axis(several=True)
def roll(a: ArrayLike, shift: Any, axis: AxisLike = None) -> Array:
    """Elements moved along axes; what falls off the end comes back at the start.

    Args:
      a: array `[..., n, ...]` of any dtype.
      shift: by how many places, an int or an integer array; one per axis, one for all, or several for one axis, which
        add up. Negative ones move towards the start. May be traced.
      axis: an int, the name of a mapped axis, a sequence of them, or None, which moves the elements in flat order; negative
        ones count from the end.
    Returns:
      Array of the shape, dtype and units of `a`.
    Raises:
      ShapeError: `a` does not have an axis.
      ValueError: several shifts for several axes that are not one per axis.
      TypeError: `shift` holds no integers or has two axes, or `a` is neither an array nor a number.

    Derivative: linear; the transpose moves the other way.
    Source: meaning of `numpy.roll`.

    >>> roll(np.array([1, 2, 3]), 1)
    Array([3, 1, 2], dtype=int32)
    >>> roll(np.array([[1, 2], [3, 4]]), 1, axis=1)
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    fixed = isinstance(shift, (int, np.integer)) or isinstance(shift, (list, tuple)) and all(
        isinstance(s, (int, np.integer)) for s in shift)
    if fixed:
        return _roll(a, to_hashable(shift), to_hashable(axis))
    return _roll_by(a, shift, to_hashable(axis))


def _roll_axes(call: str, a: Any, count: int, axis: Any) -> tuple[int, ...]:
    axes = check_axes(call, axis, len(typeof(a).shape)) if not isinstance(axis, (list, tuple)) else tuple(
        check_axis(call, i, len(typeof(a).shape)) for i in axis)
    if count not in (1, len(axes)) and len(axes) != 1:
        raise ValueError(f"{call}: shift and axis must have the same length; got {count} shifts and {len(axes)} axes")
    return axes * (count if len(axes) == 1 else 1)


@jitted_core("shift", "axis", name="roll")
def _roll(a: Any, shift: Any, axis: Any) -> Any:
    sizes = aval("roll", a).shape
    if axis is None:
        return reshape(_roll(ravel(a), int(np.sum(shift)), 0), sizes)
    shifts = shift if isinstance(shift, tuple) else (shift,)
    axes = _roll_axes("roll", a, len(shifts), axis)
    shifts = shifts * (len(axes) if len(shifts) == 1 else 1)
    for s, at in zip(shifts, axes):
        n = sizes[at]
        by = s % n if n else 0
        if by:
            head, tail = split_at(a, [n - by], at)
            a = lax.concatenate([tail, head], at)
    return a


@jitted_core("axis", name="roll")
def _roll_by(a: Any, shift: Any, axis: Any) -> Any:
    sizes = aval("roll", a).shape
    shift = asarray(shift)
    if not (dtypes.is_integer(typeof(shift).dtype) or dtypes.is_bool(typeof(shift).dtype)) or len(typeof(shift).shape) > 1:
        raise TypeError(f"roll: shift must be an integer, or one for each axis; got {typeof(shift).str_long()}")
    shift = cast(shift, dtypes.canonical_int())  # narrow and unsigned ones would overflow when negated
    if axis is None:
        shift = lax.reduce_sum(shift, tuple(range(len(typeof(shift).shape))))
        return reshape(_roll_by(ravel(a), shift, 0), sizes)
    count = 1 if not typeof(shift).shape else typeof(shift).shape[0]
    axes = _roll_axes("roll", a, count, axis)
    for i, at in enumerate(axes):
        n = sizes[at]
        if not n:
            continue
        by = shift if not typeof(shift).shape else shift[i if count > 1 else 0]
        start = remainder(-by, n)
        twice = lax.concatenate([a, a], at)
        zero = literal(0, typeof(start).dtype)
        starts = [start if j == at else zero for j in range(len(sizes))]
        a = lax.dynamic_slice(twice, starts, sizes, allow_negative_indices=False)
    return a


def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """The elements repeated in order in a new shape.

    Args:
      a: array, number or list of numbers.
      new_shape: an int or a sequence of ints.
    Returns:
      Array of the new shape, with the dtype and units of `a`: its elements in flat order, cut off or begun again;
      zeros where there are none.
    Raises:
      ValueError: a size is negative.
      TypeError: `new_shape` holds no integers, or `a` holds what is no number.

    Source: meaning of `numpy.resize`.

    >>> resize(np.array([1, 2, 3]), (2, 2))
    Array([[1, 2],
           [3, 1]], dtype=int32)
    """
    shape = as_shape("resize", new_shape)
    a = ravel(asarray(a))
    total, have = int(np.prod(shape)), typeof(a).shape[0]
    if not total or not have:
        t = typeof(a)
        return broadcast(cast(make_constant(0, t.dtype), t.dtype, t.weak_type), (), shape)
    times = -(-total // have)
    return reshape(split_at(tile(a, times), [total], 0)[0], shape)
