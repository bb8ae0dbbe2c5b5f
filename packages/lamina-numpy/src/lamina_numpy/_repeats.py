"""Repeating, rolling, resizing; deleting from and inserting into an axis."""
from __future__ import annotations

import operator
from typing import Any

import numpy as np
from lamina_ir import prims
from lamina_tracing.extend import bind, check_axes, check_axis, typeof

from ._conversion import asarray
from ._creation import arange, as_shape, zeros_like
from ._division import remainder
from ._joins import concatenate, split_at
from ._promotion import aval, broadcast, cast, literal
from ._publish import hashable, plain_or_compiled, public
from ._shape import ravel, reshape

__all__ = ["delete", "insert", "repeat", "resize", "roll", "tile", "trim_zeros"]


def tile(A: Any, reps: Any) -> Any:
    """`A` repeated as a whole, `reps` times along each axis."""
    return plain_or_compiled(tiled, A)(A, (reps,) if isinstance(reps, (int, np.integer)) else hashable(tuple(reps)))


@public("reps")
def tiled(A: Any, reps: tuple[int, ...]) -> Any:
    sizes = aval("tile", A).shape
    n = max(len(sizes), len(reps))
    sizes = (1,) * (n - len(sizes)) + sizes
    reps = (1,) * (n - len(reps)) + tuple(map(operator.index, reps))
    split_shape = tuple(d for pair in zip((1,) * n, sizes) for d in pair)
    wide = tuple(d for pair in zip(reps, sizes) for d in pair)
    out = reshape(A, split_shape)
    return reshape(broadcast(out, split_shape, wide), tuple(r * s for r, s in zip(reps, sizes)))


def repeat(a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None) -> Any:
    """Each element repeated, `repeats` times or each its own number of times.

    Args:
      a: array.
      repeats: an int, or one int per element of the axis. Traced repeats need `total_repeat_length`.
      axis: along which; None flattens first.
      total_repeat_length: length of the result; it is cut, or filled with the last element, to fit.

    >>> repeat(asarray([1, 2]), 2)
    Array([1, 1, 2, 2], dtype=int32)
    """
    if isinstance(repeats, (int, np.integer)) and total_repeat_length is None:
        return plain_or_compiled(_repeat, a)(a, int(repeats), axis)
    from ._taking import take
    from ._searching import searchsorted
    a = asarray(a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = check_axis("repeat", axis, len(typeof(a).shape))
    n = typeof(a).shape[axis]
    if total_repeat_length is None:
        counts = np.broadcast_to(np.asarray(repeats), (n,))
        return take(a, np.repeat(np.arange(n), counts), axis=axis)
    from ._running import cumsum
    counts = broadcast(asarray(repeats), typeof(asarray(repeats)).shape, (n,))
    at = searchsorted(cumsum(counts), arange(total_repeat_length), side="right")
    return take(a, at, axis=axis, mode="clip")


@public("repeats", "axis")
def _repeat(a: Any, repeats: int, axis: int | None) -> Any:
    if axis is None:
        a, axis = ravel(a), 0
    sizes = aval("repeat", a).shape
    at = check_axis("repeat", axis, len(sizes))
    wide = (*sizes[:at + 1], repeats, *sizes[at + 1:])
    out = bind(prims.broadcast_in_dim_p, a, shape=wide,
               broadcast_dimensions=tuple(i for i in range(len(wide)) if i != at + 1))
    return reshape(out, (*sizes[:at], sizes[at] * repeats, *sizes[at + 1:]))


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Elements moved by `shift` places along an axis; what falls off the end comes back at the start.

    >>> roll(asarray([1, 2, 3]), 1)
    Array([3, 1, 2], dtype=int32)
    """
    fixed = isinstance(shift, (int, np.integer)) or isinstance(shift, (list, tuple)) and all(
        isinstance(s, (int, np.integer)) for s in shift)
    if fixed:
        return plain_or_compiled(_roll, a)(a, hashable(shift), hashable(axis))
    return plain_or_compiled(_roll_by, a)(a, shift, hashable(axis))


def _roll_axes(call: str, a: Any, count: int, axis: Any) -> tuple[int, ...]:
    axes = check_axes(call, axis, len(typeof(a).shape)) if not isinstance(axis, (list, tuple)) else tuple(
        check_axis(call, i, len(typeof(a).shape)) for i in axis)
    if count not in (1, len(axes)) and len(axes) != 1:
        raise ValueError(f"{call}: {count} shifts do not go with {len(axes)} axes")
    return axes * (count if len(axes) == 1 else 1)


@public("shift", "axis")
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
            a = bind(prims.concatenate_p, tail, head, dimension=at)
    return a


@public("axis")
def _roll_by(a: Any, shift: Any, axis: Any) -> Any:
    sizes = aval("roll", a).shape
    shift = asarray(shift)
    if axis is None:
        from ._reductions import sum as total
        return reshape(_roll_by(ravel(a), total(shift), 0), sizes)
    count = 1 if not typeof(shift).shape else typeof(shift).shape[0]
    axes = _roll_axes("roll", a, count, axis)
    for i, at in enumerate(axes):
        n = sizes[at]
        if not n:
            continue
        by = shift if not typeof(shift).shape else shift[i if count > 1 else 0]
        start = remainder(-by, n)
        twice = bind(prims.concatenate_p, a, a, dimension=at)
        zero = literal(0, typeof(start).dtype)
        starts = [start if j == at else zero for j in range(len(sizes))]
        a = bind(prims.dynamic_slice_p, twice, *starts, slice_sizes=sizes)
    return a


def resize(a: Any, new_shape: Any) -> Any:
    """The elements repeated in order, as often as needed, in a new shape."""
    shape = as_shape("resize", new_shape)
    a = ravel(asarray(a))
    total, have = int(np.prod(shape)), typeof(a).shape[0]
    if not total or not have:
        return zeros_like(a, shape=shape)
    times = -(-total // have)
    return reshape(split_at(tile(a, times), [total], 0)[0], shape)


def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """`arr` without the elements at the (concrete) places `obj` along an axis."""
    from ._taking import take
    arr = asarray(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    n = typeof(arr).shape[check_axis("delete", axis, len(typeof(arr).shape))]
    obj = obj if isinstance(obj, (slice, int)) else np.asarray(obj)
    return take(arr, np.delete(np.arange(n), obj), axis=axis)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """`values` put before the (concrete) places `obj` along an axis."""
    from ._taking import take
    from ._shape import moveaxis
    arr = asarray(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    at = check_axis("insert", axis, len(typeof(arr).shape))
    n = typeof(arr).shape[at]
    obj = np.arange(n)[obj] if isinstance(obj, slice) else np.asarray(obj)
    arr = moveaxis(arr, at, 0)
    values = cast(asarray(values), typeof(arr).dtype)
    vs = typeof(values).shape
    if obj.ndim == 0 and len(vs) == len(typeof(arr).shape):
        values = moveaxis(values, at, 0)
        vs = typeof(values).shape
        count, full = vs[0], (vs[0], *typeof(arr).shape[1:])
    else:
        count = max(obj.size, vs[0] if vs and len(typeof(arr).shape) == 1 else 1)
        full = (count, *typeof(arr).shape[1:])
        if len(vs) > 1:
            values = moveaxis(values, at if len(vs) == len(full) else 0, 0)
    values = broadcast(values, typeof(values).shape, full)
    places = np.insert(np.arange(n), obj if obj.size != 1 else int(obj.reshape(())), np.arange(n, n + count))
    return moveaxis(take(concatenate([arr, values], 0), places, axis=0), 0, at)


def trim_zeros(filt: Any, trim: str = "fb") -> Any:
    """A concrete one-dimensional array without leading ("f") and trailing ("b") zeros."""
    filt = asarray(filt)
    found = np.flatnonzero(np.asarray(filt))
    n = typeof(filt).shape[0]
    lo, hi = (int(found[0]), int(found[-1]) + 1) if found.size else (n, n)
    return split_at(filt, [lo if "f" in trim.lower() else 0, hi if "b" in trim.lower() else n], 0)[1]
