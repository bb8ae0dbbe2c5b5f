"""Elements by their places: `x[index]`, `take`, diagonals, triangles."""
from __future__ import annotations

import builtins
import math
from operator import index as as_index
from typing import Any

import numpy as np
from lamina_ir import dtypes, errors

from .. import lax
from ..lax.indexing import GatherDimensionNumbers, GatherScatterMode
from .._core.tracer import Tracer, get_concrete_value, typeof
from ._registry import as_array, axis_of, cast, flat_or_along, ndim_of, row, rows, shape_of, shown, stretched

__all__ = ["getitem", "known_whole_numbers", "take"]

_INT = np.dtype("int32")


def known_whole_numbers(call: str, argument: str, x: Any) -> np.ndarray:
    """An argument that says which shape or places, as an array of NumPy's: it must be known."""
    if isinstance(x, Tracer):
        value = get_concrete_value(x)
        if value is None or not dtypes.is_integer(x.dtype) and x.dtype != dtypes.BOOL:
            raise errors.TracerArrayError(f"numpy.{call}: {argument} must be known when the function is traced; got "
                                          f"{shown(x)}. Pass it as a static argument, or compute it from "
                                          f"shapes.{x._describe_provenance()}")
        return np.asarray(value)
    return np.asarray([known_whole_numbers(call, argument, v) for v in x] if type(x) in (list, tuple) else x)


def gathered(x: Any, places: Any, axis: int) -> Any:
    """The slices of `x` along one axis at an array of places inside of it; the axes of `places` come in its stead."""
    s, p = shape_of(x), shape_of(places)
    if not isinstance(places, Tracer):
        places = np.asarray(places, _INT)
        steps = _as_slice(places)
        if steps is not None:
            return _sliced(x, axis, steps)
    places = cast(places, _INT)
    dims = GatherDimensionNumbers(offset_dims=(*range(axis), *range(axis + len(p), len(s) - 1 + len(p))),
                                  collapsed_slice_dims=(axis,), start_index_map=(axis,))
    return lax.gather(x, lax.expand_dims(places, (len(p),)), dims, tuple([1 if i == axis else n for i, n in enumerate(s)]),
                      mode=GatherScatterMode.PROMISE_IN_BOUNDS)


def _as_slice(places: np.ndarray) -> builtins.slice | None:
    """What known places are where they follow each other."""
    if places.ndim != 1 or len(places) < 2:
        return None
    step = int(places[1]) - int(places[0])
    if step and (np.diff(places) == step).all():
        first, last = int(places[0]), int(places[-1])
        return slice(first, last + (1 if step > 0 else -1) if step > 0 or last else None, step)
    return None


def _sliced(x: Any, axis: int, part: builtins.slice) -> Any:
    n = shape_of(x)[axis]
    start, stop, step = part.indices(n)
    count = len(range(start, stop, step))
    if (start, count, step) == (0, n, 1):
        return x
    if step < 0:
        start, stop = start + (count - 1) * step if count else 0, start + 1 if count else 0
        return lax.rev(lax.slice_in_dim(x, start, stop, -step, axis), (axis,))
    return lax.slice_in_dim(x, start, max(start, stop), step, axis)


def _inside(call: str, places: Any, n: int, mode: str = "raise") -> Any:
    """Places counted from the front; known ones are checked."""
    if not isinstance(places, Tracer):
        places = np.asarray(places)
        if mode == "wrap":
            return places % max(n, 1)
        if mode == "clip":
            return np.clip(places, 0, n - 1)
        if places.size and (places.min() < -n or places.max() >= n):
            outside = places[(places < -n) | (places >= n)].flat[0]
            raise IndexError(f"{call}: index {outside} is out of bounds for an axis of length {n}")
        return np.where(places < 0, places + n, places)
    places, size, zero = cast(places, _INT), lax.full_like(places, n, _INT), lax.full_like(places, 0, _INT)
    if mode == "wrap":
        return rows["remainder"](places, size)
    if mode != "clip":
        places = lax.select(lax.lt(places, zero), lax.add(places, size), places)
    return lax.max(zero, lax.min(places, lax.sub(size, lax.full_like(zero, 1))))


@row("take")
def take(a: Any, indices: Any, axis: Any = None, out: None = None, mode: str = "raise") -> Any:
    x, along = flat_or_along("take", a, axis)
    places = as_array(indices)
    if isinstance(places, Tracer) and get_concrete_value(places) is not None:
        places = np.asarray(get_concrete_value(places))
    if not dtypes.is_integer(typeof(places).dtype) and typeof(places).size:
        raise TypeError(f"numpy.take: indices must be integers; got {typeof(places).str_long()}")
    return gathered(x, _inside("numpy.take", places, shape_of(x)[along], mode), along)


@row("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    x, along = flat_or_along("take_along_axis", arr, axis)
    places = as_array(indices) if axis is not None else lax.reshape(as_array(indices), (typeof(as_array(indices)).size,))
    n = ndim_of(x)
    if ndim_of(places) != n:
        raise ValueError(f"numpy.take_along_axis: indices must have the {n} axes of the array; got {typeof(places).str_long()}")
    shape = np.broadcast_shapes(*[tuple([1 if i == along else m for i, m in enumerate(shape_of(v))]) for v in (x, places)])
    x = stretched(x, (*shape[:along], shape_of(x)[along], *shape[along + 1:]))
    places = _inside("numpy.take_along_axis", places, shape_of(x)[along])
    places = stretched(places, (*shape[:along], shape_of(places)[along], *shape[along + 1:]))
    grid = [lax.broadcasted_iota(_INT, shape_of(places), i) if i != along else cast(places, _INT) for i in range(n)]
    index = lax.concatenate([lax.expand_dims(g, (n,)) for g in grid], n)
    dims = GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=tuple(range(n)), start_index_map=tuple(range(n)))
    return lax.gather(x, index, dims, (1,) * n, mode=GatherScatterMode.PROMISE_IN_BOUNDS)


# --- x[index] --------------------------------------------------------------------------------------------------------


def getitem(x: Any, index: Any) -> Any:
    """`x[index]` with NumPy's meaning: integers, slices, `...`, `None`, arrays of integers and of known truth values."""
    parts = index if isinstance(index, tuple) else (index,)
    parts = tuple([_known_part(p) for p in parts])
    if all(isinstance(p, (int, slice)) or p is None or p is Ellipsis for p in parts):
        return _basic(x, parts)
    if not any(isinstance(p, Tracer) for p in parts):
        return _by_numbers(x, parts)
    return _one_traced(x, parts)


def _known_part(p: Any) -> Any:
    """A part of an index, its numbers where they are known."""
    if p is None or p is Ellipsis or type(p) is int:
        return p
    if isinstance(p, slice):
        return slice(*[v if v is None else as_index(v) for v in (p.start, p.stop, p.step)])
    if type(p) is bool or isinstance(p, np.bool_):
        return np.asarray(p)
    p = as_array(p)
    if isinstance(p, Tracer):
        if p.dtype != dtypes.BOOL and not dtypes.is_integer(p.dtype):
            raise TypeError(f"an index must hold integers or truth values; got {shown(p)}")
        value = get_concrete_value(p)
        if value is None and p.dtype == dtypes.BOOL:
            raise errors.TracerArrayError(
                f"x[mask] with {shown(p)}: how many elements it picks is known only with its numbers. Use "
                f"numpy.where(mask, x, 0).{p._describe_provenance()}")
        p = p if value is None else np.asarray(value)
    if isinstance(p, (np.ndarray, np.generic)):
        p = np.asarray(p)
        if p.dtype != bool and not np.issubdtype(p.dtype, np.integer) and p.size:
            raise TypeError(f"an index must hold integers or truth values; got {p.dtype.name}{list(p.shape)}")
        return int(p) if p.ndim == 0 and p.dtype != bool else p if p.size else p.astype(p.dtype if p.dtype == bool else int)
    if isinstance(p, (str, float, complex)):
        raise TypeError(f"an index must be integers, slices, `...`, None or arrays of these; got {p!r:.60}")
    return p if isinstance(p, Tracer) else as_index(p)


def _spread(x: Any, parts: tuple[Any, ...]) -> list[Any]:
    """The parts with `...` written out, one for each axis, and `None` between them."""
    n = ndim_of(x)
    taken = sum([np.ndim(p) if _is_mask(p) else p is not None and p is not Ellipsis for p in parts])
    if taken > n:
        raise IndexError(f"too many indices: {taken} for an array with {n} axes")
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
    if any(p is Ellipsis for p in parts[at + 1:]):
        raise IndexError("an index can have one `...` only")
    return [*parts[:at], *[slice(None)] * (n - taken), *parts[at + 1:]]


def _is_mask(p: Any) -> bool:
    return isinstance(p, np.ndarray) and p.dtype == np.dtype(bool)


def _basic(x: Any, parts: tuple[Any, ...]) -> Any:
    gone: list[int] = []
    new: list[int] = []
    axis = 0
    for p in _spread(x, parts):
        if p is None:
            new.append(axis - len(gone) + len(new))
            continue
        if isinstance(p, slice):
            x = _sliced(x, axis, p)
        else:
            n = shape_of(x)[axis]
            if not -n <= p < n:
                raise IndexError(f"index {p} is out of bounds for axis {axis} with size {n}")
            x = lax.slice_in_dim(x, p % n, p % n + 1, axis=axis)
            gone.append(axis)
        axis += 1
    x = lax.squeeze(x, tuple(gone)) if gone else x
    return lax.expand_dims(x, tuple(new)) if new else x


def _by_numbers(x: Any, parts: tuple[Any, ...]) -> Any:
    """With arrays of known numbers: NumPy picks from the numbers of the places, and those are taken."""
    spread = _spread(x, parts)
    arrays = [i for i, p in enumerate(spread) if not isinstance(p, slice)]
    axis, places = (arrays[0], spread[arrays[0]]) if len(arrays) == 1 else (0, None)
    if isinstance(places, np.ndarray) and not _is_mask(places):  # `x[i]`, `x[:, i]`: whole slices at once
        return _others(gathered(x, _inside("x[index]", places, shape_of(x)[axis]), axis), spread, axis)
    places = np.arange(typeof(x).size, dtype=np.int64).reshape(shape_of(x))[parts]
    return gathered(lax.reshape(x, (typeof(x).size,)), places, 0)


def _others(x: Any, spread: list[Any], axis: int) -> Any:
    """What is left of an index when the axes of its one array are there in the stead of one axis."""
    parts: list[Any] = []
    for i, p in enumerate(spread):
        parts += [slice(None)] * np.ndim(p) if i == axis else [p]
    return _basic(x, tuple(parts)) if any(p != slice(None) for p in parts) else x


def _one_traced(x: Any, parts: tuple[Any, ...]) -> Any:
    """With an array of integers that have no numbers yet."""
    spread = _spread(x, parts)
    arrays = [i for i, p in enumerate(spread) if not isinstance(p, slice)]
    if len(arrays) > 1:
        return _several_traced(x, spread)
    axis = arrays[0]
    return _others(gathered(x, _inside("x[index]", spread[axis], shape_of(x)[axis]), axis), spread, axis)


def _several_traced(x: Any, spread: list[Any]) -> Any:
    """Arrays that broadcast to each other, some of them traced; integers count as arrays."""
    new = [i for i, p in enumerate(spread) if p is None]
    if new:  # first the new axes, as axes of length 1 that are kept whole
        x = _basic(x, tuple([p if p is None else slice(None) for p in spread]))
        spread = [slice(None) if p is None else p for p in spread]
    chosen = [i for i, p in enumerate(spread) if not isinstance(p, slice)]
    x = _basic(x, tuple([p if isinstance(p, slice) else slice(None) for p in spread]))
    together = chosen == list(range(chosen[0], chosen[-1] + 1))
    places = [_inside("x[index]", spread[i], shape_of(x)[i]) for i in chosen]
    shape = np.broadcast_shapes(*map(shape_of, places))
    flat = None
    for p, i in zip(places, chosen):
        p, n = stretched(cast(p, _INT), shape), shape_of(x)[i]
        flat = p if flat is None else lax.add(lax.mul(flat, lax.full_like(flat, n)), p)
    rest = [i for i in range(ndim_of(x)) if i not in chosen]
    front = lax.transpose(x, (*chosen, *rest))
    joined = lax.reshape(front, (math.prod([shape_of(x)[i] for i in chosen]), *[shape_of(x)[i] for i in rest]))
    picked = gathered(joined, flat, 0)
    before = chosen[0] if together else 0
    k = len(shape)
    return lax.transpose(picked, (*range(k, k + before), *range(k), *range(k + before, ndim_of(picked))))


# --- diagonals, triangles and known truth ----------------------------------------------------------------------------


@row("diagonal")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    x = as_array(a)
    i, j = axis_of("diagonal", axis1, x), axis_of("diagonal", axis2, x)
    rest = [k for k in range(ndim_of(x)) if k not in (i, j)]
    x = lax.transpose(x, (*rest, i, j))
    m, n = shape_of(x)[-2:]
    places = np.diagonal(np.arange(m * n).reshape(m, n), offset)
    return gathered(lax.reshape(x, (*shape_of(x)[:-2], m * n)), places, len(rest))


@row("linalg.diagonal")
def matrix_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return diagonal(x, offset, -2, -1)


@row("trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Any:
    return rows["sum"](diagonal(a, offset, axis1, axis2), -1, dtype)


@row("linalg.trace")
def matrix_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return trace(x, offset, -2, -1, dtype)


@row("diag")
def diag(v: Any, k: int = 0) -> Any:
    x = as_array(v)
    if ndim_of(x) == 2:
        return diagonal(x, k)
    if ndim_of(x) != 1:
        raise ValueError(f"numpy.diag: expected 1 or 2 axes; got {typeof(x).str_long()}")
    n = shape_of(x)[0] + abs(k)
    grid = np.eye(n, k=k, dtype=bool)
    spread = stretched(lax.pad(x, typeof(x).dtype.type(0), [(max(k, 0), max(-k, 0), 0)]), (n, n))
    return lax.select(grid, spread, lax.full_like(spread, 0))


@row("diagflat")
def diagflat(v: Any, k: int = 0) -> Any:
    x = as_array(v)
    return diag(lax.reshape(x, (typeof(x).size,)), k)


def _triangle(name: str) -> None:
    @row(name)
    def triangle(m: Any, k: int = 0) -> Any:
        x = as_array(m)
        x = stretched(x, (shape_of(x)[0],) * 2) if ndim_of(x) == 1 else x
        mask = getattr(np, name)(np.ones(shape_of(x)[-2:], bool), k)
        return lax.select(np.broadcast_to(mask, shape_of(x)), x, lax.full_like(x, 0))


_triangle("tril")
_triangle("triu")


@row("compress")
def compress(condition: Any, a: Any, axis: Any = None, out: None = None) -> Any:
    x, along = flat_or_along("compress", a, axis)
    return take(x, np.flatnonzero(known_whole_numbers("compress", "condition", condition)), along)


@row("extract")
def extract(condition: Any, arr: Any) -> Any:
    x = as_array(arr)
    return take(lax.reshape(x, (typeof(x).size,)), np.flatnonzero(known_whole_numbers("extract", "condition", condition)), 0)


@row("choose")
def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    which = as_array(a)
    cases = [as_array(c) for c in choices] if isinstance(choices, (list, tuple)) else rows["unstack"](choices)
    which = _inside("numpy.choose", which, len(cases), mode)
    return select([rows["equal"](which, i) for i in range(len(cases))], cases)


@row("select")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError(f"numpy.select: as many conditions as choices are needed; got {len(condlist)} and {len(choicelist)}")
    out = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist)):
        out = rows["where"](condition, choice, out)
    return out
