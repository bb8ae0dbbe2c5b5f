"""Writing what an index addresses: one box with `dynamic_update_slice`, else a scatter. `_index_read.py` is its twin."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_tracing import lax
from lamina_tracing.extend import typeof, warn_user
from lamina_tracing.lax import GatherScatterMode, ScatterDimensionNumbers

from .._core.promotion import check_cast
from .parse import FLAG, FULL, MANY, NEW, Plan, SLICE, STRIDED
from .gather import FILL, broadcast_index_shapes, count_from_front, index_vectors, keep_positions, replace_flags

__all__ = ["change", "change_where", "may_repeat"]

_SCATTERS: dict[str, Callable[..., Any]] = {
    "set": lax.scatter, "add": lax.scatter_add, "multiply": lax.scatter_mul, "min": lax.scatter_min,
    "max": lax.scatter_max}
_NUMBERS = frozenset((bool, int, float, complex))
_POINTWISE: dict[str, Callable[..., Any]] = {
    "set": lambda x, v: v, "add": lax.add, "multiply": lax.mul, "min": lax.min, "max": lax.max}


# --- fitting values to their place -------------------------------------------------------------------------------


def _convert_values(x: Any, values: Any, verb: str) -> Any:
    """`values` with the dtype of `x`; a Python number becomes a constant."""
    have, want = typeof(values), typeof(x)
    plain = type(values) in _NUMBERS
    if have.dtype == want.dtype and not have.weak_type and not plain:
        return values
    call = f"x.at[index].{verb}(values)"
    check_cast(call, x, values)
    if dtypes.promote((want.dtype, want.weak_type), (have.dtype, have.weak_type), call=call)[0] != want.dtype:
        warn_user(f"x.at[...].{verb}: values of dtype {have.dtype.name} lose something as {want.dtype.name}, the "
                  "dtype of x; convert one of them with astype", FutureWarning)
        if dtypes.is_complex(have.dtype) and not dtypes.is_complex(want.dtype):
            values = values.real if plain else lax.real(values)
    return np.asarray(values).astype(want.dtype)[()] if plain else lax.convert_element_type(values, want.dtype)


def _fit(values: Any, shape: tuple[int, ...], verb: str) -> Any:
    """`values` broadcast to the addressed shape; leading axes of length 1 may be too many, as in NumPy."""
    have = typeof(values).shape
    while len(have) > len(shape) and have[0] == 1:
        values, have = lax.squeeze(values, (0,)), have[1:]
    if have == shape:
        return values
    lead = len(shape) - len(have)
    if lead < 0 or any(n != 1 and n != m for n, m in zip(have, shape[lead:], strict=True)):
        raise ShapeError(f"x.at[index].{verb}(values): values must broadcast to the indexed shape {list(shape)}; got "
                         f"{typeof(values).str_long()}")
    dims = [lead + a for a, n in enumerate(have) if n == shape[lead + a]]
    ones = [a for a, n in enumerate(have) if n != shape[lead + a]]
    return lax.broadcast_in_dim(lax.squeeze(values, ones) if ones else values, shape, dims)


def may_repeat(plan: Plan, positions: Sequence[Any]) -> bool:
    """Whether an index may name a position twice: an index array whose values differ, known now, does not."""
    if all(p[0] != MANY for p in plan.parts):
        return False
    lists = [p for p in positions if typeof(p).shape]
    return len(lists) != 1 or not isinstance(lists[0], np.ndarray) or lists[0].size == 0 or lists[0].min() < 0 \
        or np.unique(lists[0]).size < lists[0].size


# --- one change --------------------------------------------------------------------------------------------------


class _Addressed(NamedTuple):
    """What an index addresses, axis by axis of the operand."""

    starts: list[Any]
    box: list[int]  # the length of the part at each start
    layout: list[Any]  # the addressed axes in the order of the index: None (new), "one", ("walk", count) or a length
    columns: list[tuple[int, Any, str]]  # (operand axis, positions, order of their axes)


def _resolve_parts(parts: Sequence[Any], shape: tuple[int, ...], positions: Sequence[Any],
                   place: Callable[[Any, int], Any]) -> _Addressed:
    """The parts of an index laid on an operand; `place` turns a position along an axis into one from its front."""
    found = _Addressed([], [], [], [])
    # Parts walk along with the axes they take; `at` gives the positions that are not known until the program runs.
    at, axis = iter(positions), 0
    for part in parts:
        kind = part[0]
        if kind == NEW:
            found.layout.append(None)
            continue
        n, start, size = shape[axis], 0, shape[axis]
        if kind == SLICE:
            start, size = next(at), part[1]
            found.columns.append((axis, start, "start"))
            found.layout.append(size)
        elif kind == FULL:
            found.layout.append(n)
        elif kind == STRIDED:
            first, count, step = part[1:]
            found.layout.append(("walk", count))
            found.columns.append((axis, np.arange(first, first + count * step, step, dtype=np.int32), "walk"))
            size = 1
        else:
            start, size = place(next(at), n), 1
            found.columns.append((axis, start, "one"))
            found.layout.append("one")
        found.starts.append(start)
        found.box.append(size)
        axis += 1
    return found


def change(verb: str, plan: Plan, mode: GatherScatterMode, flags: tuple[bool, bool], wrap: bool, x: Any, values: Any,
           *positions: Any) -> Any:
    """`x` with `values` set, added, ... where the index points.

    Args:
      verb: a key of `_SCATTERS`.
      plan, positions: as `parse` gives them.
      mode: what to do with positions outside.
      flags: promises: (positions ascend, positions differ).
      wrap: whether negative positions count from the end.
    """
    values = _convert_values(x, values, verb)
    full_shape = typeof(x).shape
    if any(p[0] == FLAG for p in plan.parts):
        parts, x, rest = replace_flags(plan, x, positions)
    else:
        parts, rest = plan.parts, list(positions)
    shape = typeof(x).shape
    lone = not any(p[0] in (MANY, STRIDED) for p in parts)  # the index addresses one box
    starts, box, layout, columns = _resolve_parts(parts, shape, rest, count_from_front if wrap else keep_positions)
    batch = broadcast_index_shapes([p for _, p, how in columns if how == "one"])
    kept = [a for a in layout if a != "one"]
    lead = next((i for i, a in enumerate(layout) if a == "one"), 0) if plan.joined else 0
    order = [*kept[:lead], *[("many", n) for n in batch], *kept[lead:]]
    target = tuple(1 if a is None else a if type(a) is int else a[1] for a in order)
    whole = verb == "set" and lone and (plan.inside or mode is not FILL)
    values = _fit(values, tuple(box) if whole and not typeof(values).shape else target, verb)
    if 0 in target or any(n == 0 for n in shape):
        return lax.reshape(x, full_shape) if shape != full_shape else x
    if whole:
        block = lax.reshape(values, box) if typeof(values).shape != tuple(box) else values
        out = block if tuple(box) == shape else lax.dynamic_update_slice(x, block, starts, allow_negative_indices=False)
    else:
        if None in order:
            values = lax.squeeze(values, [i for i, a in enumerate(order) if a is None])
            order = [a for a in order if a is not None]
        out = _scatter(verb, x, values, columns, box, order, batch, lone, plan, mode, flags)
    return lax.reshape(out, full_shape) if shape != full_shape else out


def _scatter(verb: str, x: Any, values: Any, columns: list[tuple[int, Any, str]], box: list[int], order: list[Any],
             batch: tuple[int, ...], lone: bool, plan: Plan, mode: GatherScatterMode, flags: tuple[bool, bool]) -> Any:
    window = tuple(i for i, a in enumerate(order) if type(a) is int)
    loops = [a for a in order if type(a) is not int]  # the batch axes of the index vectors
    meet = tuple(n for _, n in loops)
    first = next((i for i, a in enumerate(loops) if a[0] == "many"), 0)
    walks = iter([i for i, a in enumerate(loops) if a[0] == "walk"])
    places: list[Sequence[int]] = []
    for _, position, how in columns:
        ndim = len(typeof(position).shape)
        places.append((next(walks),) if how == "walk" else () if how == "start"
                      else range(first + len(batch) - ndim, first + len(batch)))
    arrays = []
    fixed = []
    for (_, position, _), place in zip(columns, places, strict=True):
        have = typeof(position).shape
        ones = [i for i, (n, p) in enumerate(zip(have, place, strict=True)) if n != meet[p]]
        arrays.append(lax.squeeze(position, ones) if ones else position)  # an axis of length 1 stretches
        fixed.append([p for i, p in enumerate(place) if i not in ones])
    axes = tuple(a for a, _, _ in columns)
    dims = ScatterDimensionNumbers(window, tuple(a for a, _, how in columns if how != "start"), axes)
    if axes:
        indices = index_vectors(arrays, meet, fixed)
    else:
        indices = np.zeros((0,), np.int32)
    known = not any(how == "one" and typeof(p).shape for _, p, how in columns)  # no index arrays: positions differ
    rising = known and all(np.all(np.diff(p) > 0) for _, p, how in columns if how == "walk")
    return _SCATTERS[verb](x, indices, values, dims, mode=mode,
                           indices_are_sorted=flags[0] or plan.mask or (rising and (lone or len(meet) == 1)),
                           unique_indices=flags[1] or plan.mask or known)


def change_where(verb: str, x: Any, values: Any, mask: Any) -> Any:
    """`x` changed by one value where a mask, known or traced, is true."""
    aval = typeof(x)
    values = _convert_values(x, values, verb)
    if aval.shape:
        values = lax.broadcast_in_dim(values, aval.shape, ())
    seen = typeof(mask).shape
    if seen != aval.shape:
        mask = lax.broadcast_in_dim(mask, aval.shape, range(len(seen)))
    return lax.select(mask, _POINTWISE[verb](x, values), x)
