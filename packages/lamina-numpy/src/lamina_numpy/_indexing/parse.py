"""Taking a NumPy index apart into a *plan* (hashable: what each part is, and how large) and *positions* (the numbers
and arrays that may differ from call to call while the program stays the same)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import TracerArrayError, TracerIndexError, TracerIntegerError, dtypes
from lamina_ir.errors import mark_builtin_error
from lamina_tracing import lax
from lamina_tracing.extend import Tracer, has_jax_array, read_jax_array

from .._core.conversion import wrap_host_values

__all__ = ["FLAG", "FULL", "MANY", "NEW", "POINT", "Plan", "SLICE", "STRIDED", "has_traced", "index_parts", "parse",
           "wrap_index"]

# What a part of an index is. A part is (kind, ...): NEW (None), FULL, SLICE size, STRIDED (start, size, step),
# POINT (one position), MANY (an integer array), FLAG (a Python truth value: a new axis of length 0 or 1).
NEW, FULL, SLICE, STRIDED, POINT, MANY, FLAG = range(7)
_NEW, _FULL, _POINT, _MANY = (NEW,), (FULL,), (POINT,), (MANY,)
_SLICES = [(SLICE, n) for n in range(64)]
_I32 = np.dtype("int32")


class Plan(NamedTuple):
    """The static side of an index.

    Args:
      parts: one per `None`, operand axis or flag, in order.
      joined: whether index arrays are adjacent, so that their axes stay in place; else they come first.
      inside: whether all positions are known to be inside the array.
      mask: whether the index arrays come from boolean masks: their positions ascend and differ.
    """

    parts: tuple[tuple[Any, ...], ...]
    joined: bool
    inside: bool
    mask: bool


def has_traced(positions: Sequence[Any]) -> bool:
    for p in positions:
        if type(p) is not int and isinstance(p, Tracer):
            return True
    return False


def _parse_slice(s: slice, n: int, positions: list[Any]) -> tuple[Any, ...]:
    try:
        start, stop, step = s.indices(n)
    except TracerIntegerError:
        raise TracerIndexError(
            f"indexing: slice bounds must be known integers, since they decide the result's shape; got {_format_slice(s)}. Use "
            "lamina.lax.dynamic_slice (or dynamic_slice_in_dim) with a traced start and a known size") from None
    except TypeError as e:
        raise mark_builtin_error(TypeError(f"indexing: slice bounds must be integers or None; got {_format_slice(s)}")) from e
    size = len(range(start, stop, step))
    if size > 1 and step != 1:
        return STRIDED, start, size, step
    if size == n:
        return _FULL
    positions.append(start if size else 0)
    return _SLICES[size] if size < 64 else (SLICE, size)


def _format_slice(s: slice) -> str:
    """`start:stop:step` with a traced bound by its type."""
    bounds = [b.aval.str_long() if isinstance(b, Tracer) else "" if b is None else f"{b!r:.40}"
              for b in (s.start, s.stop, s.step)]
    return ":".join(bounds if bounds[2] else bounds[:2])


def _is_sequence(part: Any) -> bool:
    return isinstance(part, (list, tuple, range))


def _to_index_array(part: Any) -> Any:
    """A part that is no int, slice, None or Ellipsis, as an array; a mask as a NumPy array."""
    if isinstance(part, Tracer):
        dtype = part.dtype
        # A mask decides the shape of the result, so it has to be known, and stays in NumPy where its places are counted.
        if dtypes.is_bool(dtype):
            raise TracerIndexError(
                f"indexing: a boolean mask must be known, since it decides the result's shape; got a traced "
                f"{part.aval.str_long()}. Use lamina.numpy.where(mask, x, y), or lamina.numpy.nonzero(mask, size=n)")
        if dtypes.is_integer(dtype):
            return part
    elif isinstance(part, str):
        raise mark_builtin_error(TypeError(f"indexing: an index must not be a string; got {part!r}"))
    else:
        if _is_sequence(part):
            try:
                part = np.asarray(part)
            except TracerArrayError:
                raise mark_builtin_error(TypeError(
                    "indexing: an index must not be a list of traced values; use lamina.numpy.array(list)")) from None
            if part.size == 0:
                part = part.astype(_I32)
        elif has_jax_array(part):
            return _to_index_array(read_jax_array(part))
        elif not hasattr(part, "dtype"):
            if hasattr(part, "__index__"):
                return part.__index__()
            raise mark_builtin_error(TypeError(
                "indexing: expected integers, slices, None, Ellipsis, integer arrays or boolean masks; got "
                f"{type(part).__name__}: {part!r:.60}"))
        dtype = part.dtype
        if dtype.kind == "b":
            return np.asarray(part)
        if dtypes.is_integer(dtype):
            return part
    raise mark_builtin_error(TypeError(f"indexing: index arrays must have an integer or boolean dtype; got {dtype.name}"
                                       f"{list(part.shape)}. Convert with astype(int)"))


def _count_axes(part: Any) -> int:
    """How many axes a part uses."""
    return part.ndim if isinstance(part, np.ndarray) and part.dtype == bool else 1


def _normalize(index: Any, shape: Sequence[int]) -> list[Any]:
    """Parts with sequences made arrays and the Ellipsis made explicit: one part per `None`, axis or mask."""
    if type(index) is not tuple:
        if isinstance(index, (list, range)):
            raise mark_builtin_error(TypeError(
                f"indexing: an index must not be a list, which is ambiguous; got x[{index!r:.60}]. Write "
                "x[numpy.array(list)] for positions, x[tuple(list)] for axes"))
        index = (index,)
    # used: axes that parts take up (None and rank-0 masks none, masks one for each of theirs); dots: position of `...`.
    parts: list[Any] = []
    used, dots = 0, -1
    for part in index:
        kind = type(part)
        if kind is int or kind is slice:
            used += 1
        elif part is None or kind is bool:
            pass
        elif part is Ellipsis:
            if dots >= 0:
                raise mark_builtin_error(IndexError("indexing: an index can have only one Ellipsis ('...')"))
            dots = len(parts)
        else:
            part = int(part) if isinstance(part, np.integer) else _to_index_array(part)
            if isinstance(part, np.ndarray) and part.dtype == bool and not part.ndim:
                part = bool(part)
            else:
                used += _count_axes(part)
        parts.append(part)
    if used > len(shape):
        raise mark_builtin_error(IndexError(
            f"indexing: too many indices: the array has {len(shape)} axes, {used} were indexed"))
    rest = [slice(None)] * (len(shape) - used)
    if dots >= 0:
        parts[dots:dots + 1] = [_Dots, *rest]
    else:
        parts += rest
    return parts


def index_parts(index: Any, shape: Sequence[int]) -> list[Any]:
    """The parts of an index, one for each `None`, axis, mask or flag; those of an Ellipsis are whole slices."""
    return [part for part in _normalize(index, shape) if part is not _Dots]


def wrap_index(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The same index with every position taken modulo the length of its axis, as mode 'wrap' reads it."""
    found: list[Any] = []
    axis = 0
    for part in _normalize(index, shape):
        if part is _Dots or part is None or type(part) is bool:
            found.append(Ellipsis if part is _Dots else part)
            continue
        if type(part) is not slice and not (isinstance(part, np.ndarray) and part.dtype == bool):
            n = max(shape[axis], 1)
            if isinstance(part, (int, np.ndarray)):
                part = part % n
            else:  # in a type that holds the length
                part = lax.convert_element_type(part, dtypes.canonical_int())
                part = lax.rem(lax.add(lax.rem(part, lax.full_like(part, n)),
                               lax.full_like(part, n)), lax.full_like(part, n))
        found.append(part)
        axis += _count_axes(part)
    return tuple(found)


class _Dots:
    """Where an Ellipsis stood: it keeps index arrays apart even when it covers no axis."""


def parse(index: Any, shape: tuple[int, ...], clip: bool = True, wrap: bool = True) -> tuple[Plan, list[Any]]:
    """An index of an array of this shape, taken apart.

    Args:
      clip: move known positions inside the array; else those outside become the axis length.
      wrap: whether negative positions count from the end.
    """
    parts: list[tuple[Any, ...]] = []
    positions: list[Any] = []
    axis, inside, many, masks = 0, True, 0, 0
    runs, last = 0, False  # groups of neighbouring POINT, MANY and FLAG parts
    for part in _normalize(index, shape):
        kind = type(part)
        fancy = False
        if kind is int:
            n = shape[axis]
            at = part + n if part < 0 and wrap else part
            if not 0 <= at < n:
                inside = False
                # Not moved inside here, so that `checkify` finds it in the program.
                at = np.int32(min(max(part, -2**31), 2**31 - 1)) if clip and n else n
            positions.append(at)
            parts.append(_POINT)
            axis += 1
            fancy = True
        elif kind is slice:
            parts.append(_parse_slice(part, shape[axis], positions))
            axis += 1
        elif part is None:
            parts.append(_NEW)
        elif part is _Dots:
            pass
        elif kind is bool:
            parts.append((FLAG, int(part)))
            many += 1
            fancy = True
        elif kind is np.ndarray and part.dtype == bool:
            if part.shape != shape[axis:axis + part.ndim]:
                raise mark_builtin_error(IndexError(
                    f"indexing: a boolean mask must have the shape of the axes it indexes; got bool{list(part.shape)} for axes "
                    f"of lengths {list(shape[axis:axis + part.ndim])}"))
            positions += [wrap_host_values(p.astype(_I32)) for p in np.nonzero(part)]
            parts += [_MANY] * part.ndim
            axis += part.ndim
            many += 1
            masks += 1
            fancy = True
        else:
            inside = False
            positions.append(part)
            parts.append(_MANY)  # a rank-0 array too: it is looked at when the program runs
            axis += 1
            many += bool(part.shape)
            fancy = True
        runs += fancy and not last
        last = fancy
    if not many:
        parts = [_POINT if p is _MANY else p for p in parts]
    return Plan(tuple(parts), runs < 2, inside, masks == 1 and many == 1 and _MANY in parts), positions
