"""Arrays joined, split, tiled, repeated and padded."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import lax
from .._core.args import resolve_requested_dtype
from .._core.tracer import typeof
from ._registry import as_array, axis_of, cast, common, flat_or_along, ndim_of, row, rows, shape_of
from .indexing import known_whole_numbers, take

__all__ = ["concatenate", "pad"]


@row("concatenate")
def concatenate(arrays: Any, /, axis: Any = 0, out: None = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    xs = common(*arrays)
    if dtype is not None:
        xs = [cast(x, resolve_requested_dtype(dtype)) for x in xs]
    if axis is None:
        xs, axis = [lax.reshape(x, (typeof(x).size,)) for x in xs], 0
    if not ndim_of(xs[0]):
        raise ValueError("numpy.concatenate: arrays of rank 0 cannot be joined; use numpy.stack")
    return lax.concatenate(xs, axis_of("concatenate", axis, xs[0]))


@row("stack")
def stack(arrays: Any, axis: int = 0, out: None = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    xs = common(*arrays)
    if len({shape_of(x) for x in xs}) > 1:
        raise ValueError(f"numpy.stack: the arrays must have one shape; got {', '.join(str(shape_of(x)) for x in xs)}")
    at = axis + ndim_of(xs[0]) + 1 if axis < 0 else axis
    return concatenate([lax.expand_dims(x, (at,)) for x in xs], at, dtype=dtype)


@row("vstack")
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    return concatenate([rows["atleast_2d"](x) for x in tup], 0, dtype=dtype)


@row("hstack")
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    xs = [rows["atleast_1d"](x) for x in tup]
    return concatenate(xs, 0 if ndim_of(xs[0]) == 1 else 1, dtype=dtype)


@row("dstack")
def dstack(tup: Any) -> Any:
    return concatenate([rows["atleast_3d"](x) for x in tup], 2)


@row("column_stack")
def column_stack(tup: Any) -> Any:
    return concatenate([_column(x) for x in tup], 1)


def _column(x: Any) -> Any:
    x = as_array(x)
    return x if ndim_of(x) > 1 else lax.reshape(x, (typeof(x).size, 1))


@row("append")
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    return concatenate([as_array(arr), as_array(values)], axis)


@row("block")
def block(arrays: Any) -> Any:
    def depth(x: Any) -> int:
        return 1 + max(map(depth, x)) if isinstance(x, list) else 0

    def joined(x: Any, axis: int) -> Any:
        if not isinstance(x, list):
            x = as_array(x)
            return lax.reshape(x, (1,) * (rank - ndim_of(x)) + shape_of(x)) if ndim_of(x) < rank else x
        return concatenate([joined(part, axis + 1) for part in x], axis)

    def widest(x: Any) -> int:
        return max(map(widest, x)) if isinstance(x, list) else ndim_of(x)

    rank = max(depth(arrays), widest(arrays))
    return joined(arrays, -depth(arrays))


# --- split -----------------------------------------------------------------------------------------------------------


def _cuts(n: int, indices_or_sections: Any, even: bool) -> list[int]:
    if isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        return [min(max(c + n if c < 0 else c, 0), n) for c in map(int, indices_or_sections)]
    parts = int(indices_or_sections)
    if parts < 1 or even and n % parts:
        raise ValueError(f"numpy.split: an axis of length {n} has no {parts} equal parts")
    ends = np.cumsum([n // parts + (i < n % parts) for i in range(parts)])
    return [int(c) for c in ends[:-1]]


def _split(ary: Any, indices_or_sections: Any, axis: int, even: bool) -> list[Any]:
    x = as_array(ary)
    along = axis_of("split", axis, x)
    n = shape_of(x)[along]
    cuts = _cuts(n, indices_or_sections, even)
    return [lax.slice_in_dim(x, a, max(a, b), axis=along) for a, b in zip([0, *cuts], [*cuts, n])]


@row("split")
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    return _split(ary, indices_or_sections, axis, True)


@row("array_split")
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    return _split(ary, indices_or_sections, axis, False)


@row("hsplit")
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    return split(ary, indices_or_sections, 1 if ndim_of(as_array(ary)) > 1 else 0)


@row("vsplit")
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    return split(ary, indices_or_sections, 0)


@row("dsplit")
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    return split(ary, indices_or_sections, 2)


@row("unstack")
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    x = as_array(x)
    along = axis_of("unstack", axis, x)
    return tuple([lax.index_in_dim(x, i, along, keepdims=False) for i in range(shape_of(x)[along])])


# --- repeated and padded ---------------------------------------------------------------------------------------------


@row("tile")
def tile(A: Any, reps: Any) -> Any:
    x = as_array(A)
    times = tuple(map(int, reps)) if isinstance(reps, (list, tuple, np.ndarray)) else (int(reps),)
    s = (1,) * (len(times) - ndim_of(x)) + shape_of(x)
    times = (1,) * (len(s) - len(times)) + times
    apart = lax.reshape(x, [n for m in s for n in (1, m)])
    many = lax.broadcast_in_dim(apart, [n for pair in zip(times, s) for n in pair], tuple(range(2 * len(s))))
    return lax.reshape(many, [t * m for t, m in zip(times, s)])


@row("repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    x, along = flat_or_along("repeat", a, axis)
    n = shape_of(x)[along]
    counts = np.broadcast_to(known_whole_numbers("repeat", "repeats", repeats), (n,))
    return take(x, np.repeat(np.arange(n), counts), along)


@row("roll")
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    x = as_array(a)
    if axis is None:
        return lax.reshape(roll(lax.reshape(x, (typeof(x).size,)), shift, 0), shape_of(x))
    axes = [axis_of("roll", i, x) for i in (axis if isinstance(axis, (list, tuple)) else (axis,))]
    shifts = np.broadcast_to(known_whole_numbers("roll", "shift", shift), (len(axes),))
    for along, by in zip(axes, shifts):
        n = shape_of(x)[along]
        at = int(by) % n if n else 0
        if at:
            x = lax.concatenate([lax.slice_in_dim(x, n - at, n, axis=along), lax.slice_in_dim(x, 0, n - at, axis=along)], along)
    return x


@row("resize")
def resize(a: Any, new_shape: Any) -> Any:
    x = as_array(a)
    shape = tuple(map(int, new_shape)) if isinstance(new_shape, (list, tuple, np.ndarray)) else (int(new_shape),)
    flat, n = lax.reshape(x, (typeof(x).size,)), math.prod(shape)
    if not typeof(x).size:
        return lax.full_like(flat, 0, shape=shape)
    return lax.reshape(take(flat, np.arange(n) % typeof(x).size, 0), shape)


def _widths(pad_width: Any, n: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        widths = [(0, 0)] * n
        for axis, width in pad_width.items():
            widths[axis] = (width, width) if isinstance(width, int) else tuple(width)
        return widths
    return [(int(a), int(b)) for a, b in np.broadcast_to(known_whole_numbers("pad", "pad_width", pad_width), (n, 2))]


@row("pad")
def pad(array: Any, pad_width: Any, mode: Any = "constant", *, constant_values: Any = 0, reflect_type: str = "even") -> Any:
    x = as_array(array)
    widths = _widths(pad_width, ndim_of(x))
    if mode == "constant":
        return _pad_with(x, widths, constant_values)
    if mode not in ("edge", "wrap", "reflect", "symmetric") or reflect_type != "even":
        raise NotImplementedError(f"numpy.pad of a traced value: mode must be 'constant', 'edge', 'wrap', 'reflect' or "
                                  f"'symmetric', with reflect_type 'even'; got {mode!r}, {reflect_type!r}")
    for axis, width in enumerate(widths):  # NumPy says which element comes where
        if width != (0, 0):
            x = take(x, np.pad(np.arange(shape_of(x)[axis]), width, mode=mode), axis)
    return x


def _pad_with(x: Any, widths: Sequence[tuple[int, int]], values: Any) -> Any:
    n, dtype = len(widths), typeof(x).dtype
    values = as_array(values)
    if not ndim_of(values):
        return lax.pad(x, cast(values, dtype), [(a, b, 0) for a, b in widths])
    pairs = np.broadcast_to(known_whole_numbers("pad", "constant_values", values), (n, 2))
    for axis, ((a, b), (first, last)) in enumerate(zip(widths, pairs)):
        for width, value in (((a, 0, 0), first), ((0, b, 0), last)):
            x = lax.pad(x, dtype.type(value), [width if i == axis else (0, 0, 0) for i in range(n)])
    return x


@row("insert")
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    x, along = flat_or_along("insert", arr, axis)
    n = shape_of(x)[along]
    single = np.ndim(obj) == 0 and not isinstance(obj, slice)
    at = np.insert(np.arange(n), obj if isinstance(obj, slice) else known_whole_numbers("insert", "obj", obj), -1)
    new = as_array(values)
    many = int((at < 0).sum())
    shape = tuple([many if i == along else m for i, m in enumerate(shape_of(x))])
    if single and ndim_of(new):  # one place takes several values in a row
        new = rows["moveaxis"](new, 0, along) if ndim_of(new) == ndim_of(x) else new
        many = shape_of(new)[along] if ndim_of(new) == ndim_of(x) else 1 if ndim_of(x) > 1 else shape_of(new)[0]
        at = np.insert(np.arange(n), [int(obj) + n if int(obj) < 0 else int(obj)] * many, -1)
        shape = tuple([many if i == along else m for i, m in enumerate(shape_of(x))])
        new = lax.expand_dims(new, (along,)) if ndim_of(new) == ndim_of(x) - 1 else new
    places = np.where(at < 0, n + np.cumsum(at < 0) - 1, at)
    return take(concatenate([x, cast(rows["broadcast_to"](new, shape), typeof(x).dtype)], along), places, along)


@row("delete")
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    x, along = flat_or_along("delete", arr, axis)
    gone = obj if isinstance(obj, slice) else known_whole_numbers("delete", "obj", obj)
    return take(x, np.delete(np.arange(shape_of(x)[along]), gone), along)

