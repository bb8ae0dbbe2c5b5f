"""Joining, splitting, repeating and padding."""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import dtypes, prims
from lamina_ir.errors import ShapeError
from lamina_tracing.extend import Tracer, bind, check_axes, check_axis, typeof

from ._creation import asarray
from ._promotion import aval, broadcast, cast, literal, promote_all
from ._publish import compiled, hashable, public
from ._shape import atleast_1d, atleast_2d, atleast_3d, ravel, reshape, squeeze, with_axes

__all__ = ["append", "array_split", "block", "column_stack", "concat", "concatenate", "delete", "dsplit", "dstack",
           "hsplit", "hstack", "insert", "repeat", "resize", "roll", "split", "stack", "tile", "trim_zeros",
           "unstack", "vsplit", "vstack"]


def _several(call: str, arrays: Any) -> list[Any]:
    if isinstance(arrays, (list, tuple)):
        out = [asarray(a) if isinstance(a, (list, tuple)) else a for a in arrays]
    elif typeof(arrays).shape:
        out = [arrays[i] for i in range(typeof(arrays).shape[0])]
    else:
        raise TypeError(f"{call}: expected a sequence of arrays; got {typeof(arrays).long()}")
    if not out:
        raise ValueError(f"{call}: expected at least one array; got none")
    return out


@public("axis", "dtype")
def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """Arrays joined end to end along an axis they have; `axis=None` flattens first.

    >>> concatenate([asarray([1, 2]), asarray([3.0])])
    Array([1., 2., 3.], dtype=float32)
    """
    xs = _several("concatenate", arrays)
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    shapes = [aval("concatenate", x, i).shape for i, x in enumerate(xs)]
    if any(len(s) != len(shapes[0]) for s in shapes):
        raise ShapeError(f"concatenate: arrays must have equally many axes; got shapes {', '.join(map(str, shapes))}")
    if not shapes[0]:
        raise ShapeError("concatenate: rank-0 arrays have no axis to join along; use stack")
    xs = promote_all("concatenate", xs) if dtype is None else [cast(x, dtypes.canonical(dtype)) for x in xs]
    at = check_axis("concatenate", axis, len(shapes[0]))
    return xs[0] if len(xs) == 1 else bind(prims.concatenate_p, *xs, dimension=at)


concat = concatenate


@public("axis", "dtype", "out")
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Any:
    """Arrays of one shape joined along a new axis."""
    from ._ufuncs import no_out
    no_out("stack", out)
    xs = _several("stack", arrays)
    shapes = [aval("stack", x, i).shape for i, x in enumerate(xs)]
    if any(s != shapes[0] for s in shapes):
        raise ShapeError(f"stack: arrays must have one shape; got {', '.join(map(str, shapes))}")
    at = check_axis("stack", axis, len(shapes[0]) + 1)
    xs = promote_all("stack", xs) if dtype is None else [cast(x, dtypes.canonical(dtype)) for x in xs]
    xs = [with_axes(x, (at,)) for x in xs]
    return xs[0] if len(xs) == 1 else bind(prims.concatenate_p, *xs, dimension=at)


@public("axis")
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, as a tuple."""
    sizes = aval("unstack", x).shape
    at = check_axis("unstack", axis, len(sizes))
    return tuple(squeeze(part, at) for part in _cut(x, [*range(1, sizes[at])], at)) if sizes[at] else ()


@public("dtype")
def vstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays stacked as rows."""
    return concatenate([atleast_2d(x) for x in _several("vstack", tup)], 0, dtype)


@public("dtype")
def hstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays side by side: along the second axis, or the only one."""
    xs = [atleast_1d(x) for x in _several("hstack", tup)]
    return concatenate(xs, 0 if len(typeof(xs[0]).shape) == 1 else 1, dtype)


@public("dtype")
def dstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays stacked along the third axis."""
    return concatenate([atleast_3d(x) for x in _several("dstack", tup)], 2, dtype)


@public()
def column_stack(tup: Any) -> Any:
    """One-dimensional arrays as the columns of a matrix."""
    xs = [asarray(x) for x in _several("column_stack", tup)]
    return concatenate([reshape(x, (-1, 1)) if len(typeof(x).shape) < 2 else x for x in xs], 1)


@public()
def block(arrays: Any) -> Any:
    """An array from nested lists of blocks: the innermost lists join along the last axis, the outermost first."""
    def depth(x: Any) -> int:
        return 1 + max(map(depth, x)) if isinstance(x, list) else 0

    def rank(x: Any) -> int:
        return max(map(rank, x)) if isinstance(x, list) else len(aval("block", x).shape)

    def join(x: Any, level: int) -> Any:
        if isinstance(x, list):
            if not x:
                raise ValueError("block: a list of blocks is empty")
            return concatenate([join(e, level - 1) for e in x], n - level)
        short = n - len(typeof(x).shape)
        return with_axes(asarray(x), tuple(range(short)))
    levels = depth(arrays)
    n = max(levels, rank(arrays), 1)
    return join(arrays, levels)


@public("axis")
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """`values` after the end of `arr`; flat unless an axis is named."""
    return concatenate([ravel(asarray(arr)), ravel(asarray(values))], 0) if axis is None \
        else concatenate([arr, values], axis)


def _cut(x: Any, at: Sequence[int], axis: int) -> list[Any]:
    sizes = typeof(x).shape
    n = sizes[axis]
    edges = [0, *(min(max(i + n if i < 0 else i, 0), n) for i in at), n]
    parts = []
    for lo, hi in zip(edges, edges[1:]):
        start, stop = [0] * len(sizes), list(sizes)
        start[axis], stop[axis] = lo, max(lo, hi)
        parts.append(bind(prims.slice_p, x, start_indices=tuple(start), limit_indices=tuple(stop), strides=None))
    return parts


@public("indices_or_sections", "axis")
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    return _split_raw("split", ary, indices_or_sections, axis, True)


@public("indices_or_sections", "axis")
def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    return _split_raw("array_split", ary, indices_or_sections, axis, False)


def _split_raw(call: str, ary: Any, sections: Any, axis: int, equal: bool) -> list[Any]:
    sizes = aval(call, ary).shape
    at = check_axis(call, axis, len(sizes))
    if isinstance(sections, tuple):
        return _cut(ary, [operator.index(i) for i in sections], at)
    n, k = sizes[at], operator.index(sections)
    if k < 1:
        raise ValueError(f"{call}: expected at least one section; got {k}")
    base, extra = builtin_divmod(n, k)
    if equal and extra:
        raise ValueError(f"{call}: axis {axis} of length {n} does not divide into {k} equal parts; use array_split")
    return _cut(ary, [i * base + min(i, extra) for i in range(1, k)], at)


builtin_divmod = divmod


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Equal parts along an axis, or parts cut at the given places."""
    return _splitter(_split, ary)(ary, hashable(indices_or_sections), axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Like `split`, but the first parts may be one longer."""
    return _splitter(_array_split, ary)(ary, hashable(indices_or_sections), axis)


def _splitter(fun: Any, ary: Any) -> Any:
    return fun if isinstance(ary, Tracer) else compiled(fun)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """`split` along the second axis, or the only one."""
    return split(ary, indices_or_sections, 0 if len(aval("hsplit", ary).shape) == 1 else 1)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """`split` along the first axis."""
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """`split` along the third axis."""
    return split(ary, indices_or_sections, 2)


def tile(A: Any, reps: Any) -> Any:
    """`A` repeated as a whole, `reps` times along each axis."""
    return _splitter(_tile, A)(A, (reps,) if isinstance(reps, (int, np.integer)) else hashable(tuple(reps)))


@public("reps")
def _tile(A: Any, reps: tuple[int, ...]) -> Any:
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
        return _splitter(_repeat, a)(a, int(repeats), axis)
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
    from ._creation import arange
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
        return _splitter(_roll, a)(a, hashable(shift), hashable(axis))
    return _splitter(_roll_by, a)(a, shift, hashable(axis))


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
            head, tail = _cut(a, [n - by], at)
            a = bind(prims.concatenate_p, tail, head, dimension=at)
    return a


@public("axis")
def _roll_by(a: Any, shift: Any, axis: Any) -> Any:
    from ._ufuncs import remainder
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
    from ._creation import as_shape, zeros_like
    shape = as_shape("resize", new_shape)
    a = ravel(asarray(a))
    total, have = int(np.prod(shape)), typeof(a).shape[0]
    if not total or not have:
        return zeros_like(a, shape=shape)
    times = -(-total // have)
    return reshape(_cut(tile(a, times), [total], 0)[0], shape)


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
    return _cut(filt, [lo if "f" in trim.lower() else 0, hi if "b" in trim.lower() else n], 0)[1]
