"""`x[index]` of a traced value."""
from __future__ import annotations

import builtins
import math
from operator import index as as_index
from typing import Any

import numpy as np
from lamina_ir import dtypes, errors

from .. import lax
from ..lax.indexing import GatherDimensionNumbers, GatherScatterMode
from .._core.array import ArrayLike
from .._core.tracer import Tracer, get_concrete_value, typeof
from ._registry import as_array, broadcast_to, cast, describe, ndim_of, shape_of

__all__ = ["getitem"]

_INT = np.dtype("int32")


def getitem(x: ArrayLike, index: Any) -> ArrayLike:
    """Return `x[index]`, as in NumPy.

    Args:
      x: the array.
      index: integers, slices, `...`, `None`, arrays of integers and of known booleans, or a tuple of these.
    """
    parts = index if isinstance(index, tuple) else (index,)
    parts = tuple([_resolve_part(p) for p in parts])
    if all(isinstance(p, (int, slice)) or p is None or p is Ellipsis for p in parts):
        return _index_basic(x, parts)
    if not any(isinstance(p, Tracer) for p in parts):
        return _index_by_known_arrays(x, parts)
    return _index_by_traced_arrays(x, parts)


def _resolve_part(p: Any) -> Any:
    """Return one part of an index, with its concrete value if that is known."""
    if p is None or p is Ellipsis or type(p) is int:
        return p
    if isinstance(p, slice):
        return slice(*[v if v is None else as_index(v) for v in (p.start, p.stop, p.step)])
    if type(p) is bool or isinstance(p, np.bool_):
        return np.asarray(p)
    p = as_array(p)
    if isinstance(p, Tracer):
        if p.dtype != dtypes.BOOL and not dtypes.is_integer(p.dtype):
            raise TypeError(f"an index must hold integers or truth values; got {describe(p)}")
        value = get_concrete_value(p)
        if value is None and p.dtype == dtypes.BOOL:
            raise errors.TracerArrayError(
                f"x[mask] with {describe(p)}: how many elements it picks is known only with its numbers. Use "
                f"numpy.where(mask, x, 0).{p._describe_provenance()}")
        p = p if value is None else np.asarray(value)
    if isinstance(p, (np.ndarray, np.generic)):
        p = np.asarray(p)
        if p.dtype != bool and not np.issubdtype(p.dtype, np.integer) and p.size:
            raise TypeError(f"an index must hold integers or truth values; got {p.dtype.name}{list(p.shape)}")
        if p.ndim == 0 and p.dtype != bool:
            return int(p)
        return p if p.size or p.dtype == bool else p.astype(int)
    if isinstance(p, (str, float, complex)):
        raise TypeError(f"an index must be integers, slices, `...`, None or arrays of these; got {p!r:.60}")
    return p if isinstance(p, Tracer) else as_index(p)


def _expand_ellipsis(x: ArrayLike, parts: tuple[Any, ...]) -> list[Any]:
    """Replace `...`, so that there is one part per axis, besides the `None`s."""
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


def _index_basic(x: ArrayLike, parts: tuple[Any, ...]) -> ArrayLike:
    """Index with integers, slices and `None`."""
    removed: list[int] = []
    new: list[int] = []
    axis = 0
    for p in _expand_ellipsis(x, parts):
        if p is None:
            new.append(axis - len(removed) + len(new))
            continue
        if isinstance(p, slice):
            x = _slice_axis(x, axis, p)
        else:
            n = shape_of(x)[axis]
            if not -n <= p < n:
                raise IndexError(f"index {p} is out of bounds for axis {axis} with size {n}")
            x = lax.slice_in_dim(x, p % n, p % n + 1, axis=axis)
            removed.append(axis)
        axis += 1
    x = lax.squeeze(x, tuple(removed)) if removed else x
    return lax.expand_dims(x, tuple(new)) if new else x


def _slice_axis(x: ArrayLike, axis: int, part: builtins.slice) -> ArrayLike:
    n = shape_of(x)[axis]
    start, stop, step = part.indices(n)
    count = len(range(start, stop, step))
    if (start, count, step) == (0, n, 1):
        return x
    if step < 0:
        start, stop = start + (count - 1) * step if count else 0, start + 1 if count else 0
        return lax.rev(lax.slice_in_dim(x, start, stop, -step, axis), (axis,))
    return lax.slice_in_dim(x, start, max(start, stop), step, axis)


def _index_by_known_arrays(x: ArrayLike, parts: tuple[Any, ...]) -> ArrayLike:
    """Index with known arrays: NumPy indexes an array of positions; the elements at these positions are gathered."""
    expanded = _expand_ellipsis(x, parts)
    arrays = [i for i, p in enumerate(expanded) if not isinstance(p, slice)]
    axis, positions = (arrays[0], expanded[arrays[0]]) if len(arrays) == 1 else (0, None)
    if isinstance(positions, np.ndarray) and not _is_mask(positions):  # `x[i]`, `x[:, i]`: gather whole slices
        return _index_other_axes(_gather(x, _in_bounds(positions, shape_of(x)[axis]), axis), expanded, axis)
    positions = np.arange(typeof(x).size, dtype=np.int64).reshape(shape_of(x))[parts]
    return _gather(lax.reshape(x, (typeof(x).size,)), positions, 0)


def _index_other_axes(x: ArrayLike, expanded: list[Any], axis: int) -> ArrayLike:
    """Apply the slices of an index after its only array has been applied at `axis`."""
    parts: list[Any] = []
    for i, p in enumerate(expanded):
        parts += [slice(None)] * np.ndim(p) if i == axis else [p]
    return _index_basic(x, tuple(parts)) if any(p != slice(None) for p in parts) else x


def _index_by_traced_arrays(x: ArrayLike, parts: tuple[Any, ...]) -> ArrayLike:
    """Index with arrays of integers, at least one of them traced and unknown."""
    expanded = _expand_ellipsis(x, parts)
    arrays = [i for i, p in enumerate(expanded) if not isinstance(p, slice)]
    if len(arrays) > 1:
        return _index_by_several_arrays(x, expanded)
    axis = arrays[0]
    return _index_other_axes(_gather(x, _in_bounds(expanded[axis], shape_of(x)[axis]), axis), expanded, axis)


def _index_by_several_arrays(x: ArrayLike, expanded: list[Any]) -> ArrayLike:
    """Index with arrays that broadcast to one shape; integers count as arrays."""
    if any(p is None for p in expanded):  # insert the new axes first, and keep them whole
        x = _index_basic(x, tuple([p if p is None else slice(None) for p in expanded]))
        expanded = [slice(None) if p is None else p for p in expanded]
    chosen = [i for i, p in enumerate(expanded) if not isinstance(p, slice)]
    x = _index_basic(x, tuple([p if isinstance(p, slice) else slice(None) for p in expanded]))
    adjacent = chosen == list(range(chosen[0], chosen[-1] + 1))
    positions = [_in_bounds(expanded[i], shape_of(x)[i]) for i in chosen]
    shape = np.broadcast_shapes(*map(shape_of, positions))
    flat: ArrayLike = 0
    for p, i in zip(positions, chosen):
        p, n = broadcast_to(cast(p, _INT), shape), shape_of(x)[i]
        flat = p if i == chosen[0] else lax.add(lax.mul(flat, lax.full_like(flat, n)), p)
    rest = [i for i in range(ndim_of(x)) if i not in chosen]
    front = lax.transpose(x, (*chosen, *rest))
    joined = lax.reshape(front, (math.prod([shape_of(x)[i] for i in chosen]), *[shape_of(x)[i] for i in rest]))
    picked = _gather(joined, flat, 0)
    before = chosen[0] if adjacent else 0
    k = len(shape)
    return lax.transpose(picked, (*range(k, k + before), *range(k), *range(k + before, ndim_of(picked))))


def _gather(x: ArrayLike, positions: ArrayLike, axis: int) -> ArrayLike:
    """Take the slices of `x` along one axis at an array of valid positions, whose axes replace that axis."""
    s, p = shape_of(x), shape_of(positions)
    if not isinstance(positions, Tracer):
        positions = np.asarray(positions, _INT)
        steps = _as_slice(positions)
        if steps is not None:
            return _slice_axis(x, axis, steps)
    positions = cast(positions, _INT)
    dims = GatherDimensionNumbers(offset_dims=(*range(axis), *range(axis + len(p), len(s) - 1 + len(p))),
                                  collapsed_slice_dims=(axis,), start_index_map=(axis,))
    sizes = tuple([1 if i == axis else n for i, n in enumerate(s)])
    return lax.gather(x, lax.expand_dims(positions, (len(p),)), dims, sizes, mode=GatherScatterMode.PROMISE_IN_BOUNDS)


def _as_slice(positions: np.ndarray) -> builtins.slice | None:
    """Return known positions as a slice if they are evenly spaced, or None."""
    if positions.ndim != 1 or len(positions) < 2:
        return None
    step = int(positions[1]) - int(positions[0])
    if step and (np.diff(positions) == step).all():
        first, last = int(positions[0]), int(positions[-1])
        return slice(first, last + (1 if step > 0 else -1) if step > 0 or last else None, step)
    return None


def _in_bounds(positions: ArrayLike, n: int) -> ArrayLike:
    """Return positions counted from the front. Known ones are checked; traced ones are clamped."""
    if not isinstance(positions, Tracer):
        positions = np.asarray(positions)
        if positions.size and (positions.min() < -n or positions.max() >= n):
            outside = positions[(positions < -n) | (positions >= n)].flat[0]
            raise IndexError(f"x[index]: index {outside} is out of bounds for an axis of length {n}")
        return np.where(positions < 0, positions + n, positions)
    positions, size, zero = cast(positions, _INT), lax.full_like(positions, n, _INT), lax.full_like(positions, 0, _INT)
    positions = lax.select(lax.lt(positions, zero), lax.add(positions, size), positions)
    return lax.max(zero, lax.min(positions, lax.sub(size, lax.full_like(zero, 1))))
