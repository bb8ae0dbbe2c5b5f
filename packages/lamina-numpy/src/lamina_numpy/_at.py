"""`x.at[index]`: a copy of `x` with some elements changed. The index is parsed as for reading; each eager change is one
compiled call, remembered by operation and plan."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_ir.errors import ShapeError
from lamina_tracing import ArrayLike, lax
from lamina_tracing.extend import Tracer, repeated, typeof, warn_user
from lamina_tracing.lax import GatherScatterMode, ScatterDimensionNumbers

from ._index_plan import FLAG, FULL, MANY, NEW, POINT, SLICE, STRIDED, Plan, any_traced, parse
from ._index_read import FILL, from_front, index_vectors, meeting_shape, raw, read, without_flags
from ._indexing import compile_plan, take_index

__all__ = ["AtIndexer", "AtReference", "at", "setitem"]

_SCATTERS: dict[str, Callable[..., Any]] = {
    "set": lax.scatter, "add": lax.scatter_add, "multiply": lax.scatter_mul, "min": lax.scatter_min,
    "max": lax.scatter_max}
_NUMBERS = frozenset((bool, int, float, complex))
_POINTWISE: dict[str, Callable[..., Any]] = {
    "set": lambda x, v: v, "add": lax.add, "multiply": lax.mul, "min": lax.min, "max": lax.max}


# --- fitting values to their place -------------------------------------------------------------------------------


def _as_dtype_of(x: Any, values: Any, verb: str) -> Any:
    """`values` with the dtype of `x`; a Python number becomes a constant."""
    have, want = typeof(values), typeof(x)
    plain = type(values) in _NUMBERS
    if have.dtype == want.dtype and not have.weak_type and not plain:
        return values
    if dtypes.promote((want.dtype, want.weak_type), (have.dtype, have.weak_type))[0] != want.dtype:
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
                         f"{typeof(values).long()}")
    dims = [lead + a for a, n in enumerate(have) if n == shape[lead + a]]
    ones = [a for a, n in enumerate(have) if n != shape[lead + a]]
    return lax.broadcast_in_dim(lax.squeeze(values, ones) if ones else values, shape, dims)


def _may_repeat(plan: Plan, positions: Sequence[Any]) -> bool:
    """Whether an index may name a position twice: an index array whose values differ, known now, does not."""
    if all(p[0] != MANY for p in plan.parts):
        return False
    lists = [p for p in positions if typeof(p).shape]
    return len(lists) != 1 or not isinstance(lists[0], np.ndarray) or lists[0].size == 0 or lists[0].min() < 0 \
        or np.unique(lists[0]).size < lists[0].size


# --- one change --------------------------------------------------------------------------------------------------


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
    place = from_front if wrap else raw
    values = _as_dtype_of(x, values, verb)
    full_shape = typeof(x).shape
    if any(p[0] == FLAG for p in plan.parts):
        parts, x, rest = without_flags(plan, x, positions)
    else:
        parts, rest = plan.parts, list(positions)
    shape = typeof(x).shape
    lone = not any(p[0] in (MANY, STRIDED) for p in parts)  # the index addresses one box
    at, axis = iter(rest), 0
    starts: list[Any] = []
    box: list[int] = []
    layout: list[Any] = []  # the addressed axes in the order of the index: None, "one", ("walk", column) or a length
    columns: list[tuple[int, Any, str]] = []  # (operand axis, positions, how their axes lie)
    for part in parts:
        kind = part[0]
        if kind == NEW:
            layout.append(None)
            continue
        n, start, size = shape[axis], 0, shape[axis]
        if kind == SLICE:
            start, size = next(at), part[1]
            columns.append((axis, start, "start"))
            layout.append(size)
        elif kind == FULL:
            layout.append(n)
        elif kind == STRIDED:
            first, count, step = part[1:]
            layout.append(("walk", count))
            columns.append((axis, np.arange(first, first + count * step, step, dtype=np.int32), "walk"))
            size = 1
        else:
            start, size = place(next(at), n), 1
            columns.append((axis, start, "one"))
            layout.append("one")
        starts.append(start)
        box.append(size)
        axis += 1
    batch = meeting_shape([p for _, p, how in columns if how == "one"])
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


def _change_where(verb: str, x: Any, values: Any, mask: Any) -> Any:
    """`x` changed by one value where a mask, known or traced, is true."""
    aval = typeof(x)
    values = _as_dtype_of(x, values, verb)
    if aval.shape:
        values = lax.broadcast_in_dim(values, aval.shape, ())
    seen = typeof(mask).shape
    if seen != aval.shape:
        mask = lax.broadcast_in_dim(mask, aval.shape, range(len(seen)))
    return lax.select(mask, _POINTWISE[verb](x, values), x)


def _is_mask_of(index: Any, shape: tuple[int, ...]) -> bool:
    dtype = getattr(index, "dtype", None)
    if dtype is None or dtype != dtypes.BOOL:
        return False
    seen = index.shape
    return 0 < len(seen) and seen == shape[:len(seen)]


def _number_or_array(values: Any) -> Any:
    return np.asarray(values) if isinstance(values, (list, tuple)) else values


def _changed(verb: str, x: Any, index: Any, values: Any, sorted_: bool, unique: bool, mode: Any, wrap: bool) -> Any:
    how = GatherScatterMode.from_any(mode)
    values = _number_or_array(values)
    traced = isinstance(x, Tracer) or isinstance(values, Tracer)
    if _is_mask_of(index, x.shape) and not np.shape(values):
        if traced or isinstance(index, Tracer):
            return _change_where(verb, x, values, index)
        return compile_plan((verb,), _change_where, verb)(x, values, index)
    plan, positions = parse(index, x.shape, how is not FILL, wrap)
    flags = (bool(sorted_), bool(unique))
    if traced or any_traced(positions):
        return change(verb, plan, how, flags, wrap, x, values, *positions)
    return compile_plan((verb, plan, how, flags, wrap), change, verb)(x, values, *positions)


def setitem(x: Any, index: Any, value: Any) -> None:
    """`x[index] = value` is refused: arrays never change."""
    raise TypeError("arrays are immutable: instead of `x[i] = v` write `x = x.at[i].set(v)` (also .add, .multiply, "
                    ".min, .max, ...)")


# --- the public face ---------------------------------------------------------------------------------------------


class AtIndexer:
    """`x.at`; index it to say where: `x.at[2:4].set(0.0)`."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> AtReference:
        return AtReference(self.array, index)

    def __repr__(self) -> str:
        return f"AtIndexer({self.array!r})"


class AtReference:
    """`x.at[index]`: methods that return a changed copy of `x`.

    Each method takes, besides its values: `indices_are_sorted` and `unique_indices` (promises that may make it faster),
    `mode` ('drop', the default, skips positions outside the array; 'clip' moves them to the nearest inside;
    'promise_in_bounds' says there are none) and `wrap_negative_indices` (whether -1 is the last position).
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"AtReference({self.array!r}, {self.index!r})"

    def get(self, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
            fill_value: Any = None, wrap_negative_indices: bool = True) -> Any:
        """`x[index]` with choices: mode 'fill' reads `fill_value` outside the array, 'clip' (the default) the nearest.

        >>> from lamina_numpy import arange
        >>> arange(3.).at[7].get(mode="fill", fill_value=-1)
        Array(-1., dtype=float32)
        """
        return take_index(self.array, self.index, mode, fill_value, (bool(indices_are_sorted), bool(unique_indices)),
                          wrap_negative_indices)

    def apply(self, func: Callable[[Any], Any], *, indices_are_sorted: bool = False, unique_indices: bool = False,
              mode: Any = None, wrap_negative_indices: bool = True) -> Any:
        """`x[index] = func(x[index])`, functionally; `func` keeps shape and dtype. A position named twice is done twice,
        one after the other, unless `unique_indices` promises that there is none."""
        x, how = self.array, GatherScatterMode.from_any(mode)
        plan, positions = parse(self.index, x.shape, how is not FILL, wrap_negative_indices)
        flags = (bool(indices_are_sorted), bool(unique_indices))

        def addressed(x: Any) -> Any:
            return read(plan, GatherScatterMode.CLIP, None, flags, wrap_negative_indices, x, *positions)

        old = addressed(x)
        if unique_indices or not _may_repeat(plan, positions):
            new = func(old)
        else:
            counts, ones = lax.full(x.shape, 0, "int32"), lax.full(typeof(old).shape, 1, "int32")
            times = addressed(change("add", plan, how, flags, wrap_negative_indices, counts, ones, *positions))
            new = repeated(func, old, times, math.prod(lax.broadcast_shapes(*[typeof(p).shape for p in positions])))
        return change("set", plan, how, flags, wrap_negative_indices, x, new, *positions)

    def divide(self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
               mode: Any = None, wrap_negative_indices: bool = True) -> Any:
        """`x[index] /= values`, functionally; integers become floats."""
        x = self.array
        ones = _ones_like(x)
        by = _changed("multiply", ones, self.index, values, indices_are_sorted, unique_indices, mode,
                      wrap_negative_indices)
        return x / by

    def power(self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
              mode: Any = None, wrap_negative_indices: bool = True) -> Any:
        """`x[index] **= values`, functionally."""
        x = self.array
        ones = _ones_like(x)
        by = _changed("multiply", ones, self.index, values, indices_are_sorted, unique_indices, mode,
                      wrap_negative_indices)
        return x ** by

    def subtract(self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
                 mode: Any = None, wrap_negative_indices: bool = True) -> Any:
        """`x[index] -= values`, functionally; positions named twice are lowered twice."""
        change: Any = _number_or_array(values)
        return _changed("add", self.array, self.index, -change, indices_are_sorted, unique_indices, mode,
                        wrap_negative_indices)


def _ones_like(x: Any) -> Any:
    aval = typeof(x)
    one = np.ones((), aval.dtype)[()]
    return lax.broadcast_in_dim(one, aval.shape, ())


def _method(verb: str, says: str, example: str) -> Callable[..., Any]:
    # The commonest change, one known position inside the array, skips the parsing of general indices.
    points: dict[int, Any] = {}

    def point(ndim: int) -> Callable[..., Any]:
        plan = Plan(((POINT,), *[(FULL,)] * (ndim - 1)), True, True, False)
        made = points[ndim] = compile_plan((verb, plan, FILL, (False, False), True), change, verb)
        return made

    def method(self: AtReference, values: ArrayLike, *, indices_are_sorted: bool = False,
               unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True) -> Any:
        x, index = self.array, self.index
        if type(index) is int and mode is None and type(values) is not list and type(values) is not tuple \
                and not isinstance(x, Tracer) and not isinstance(values, Tracer):
            shape = x.shape
            if shape and 0 <= index < shape[0]:
                return (points.get(len(shape)) or point(len(shape)))(x, values, index)
        return _changed(verb, x, index, values, indices_are_sorted, unique_indices, mode, wrap_negative_indices)

    method.__name__ = verb
    method.__qualname__ = f"AtReference.{verb}"
    method.__doc__ = f"""{says}

        >>> from lamina_numpy import array
        >>> {example}
        """
    return method


for _verb, _says, _example in (
        ("set", "`x[index] = values`, functionally. Of positions named twice some value stays.",
         "array([1., 2., 3.]).at[1].set(9)\n        Array([1., 9., 3.], dtype=float32)"),
        ("add", "`x[index] += values`, functionally; positions named twice are raised twice.",
         "array([1., 2., 3.]).at[array([0, 0])].add(1)\n        Array([3., 2., 3.], dtype=float32)"),
        ("multiply", "`x[index] *= values`, functionally; positions named twice are multiplied twice.",
         "array([1., 2., 3.]).at[1:].multiply(2)\n        Array([1., 4., 6.], dtype=float32)"),
        ("min", "`x[index] = minimum(x[index], values)`, functionally.",
         "array([1., 2., 3.]).at[:].min(2)\n        Array([1., 2., 2.], dtype=float32)"),
        ("max", "`x[index] = maximum(x[index], values)`, functionally.",
         "array([1., 2., 3.]).at[:].max(2)\n        Array([2., 2., 3.], dtype=float32)")):
    setattr(AtReference, _verb, _method(_verb, _says, _example))
AtReference.mul = AtReference.multiply  # type: ignore[attr-defined]
at = property(AtIndexer, doc="Changed copies: `x.at[index].set(values)`, `.add`, `.multiply`, `.min`, `.max`, ...")
