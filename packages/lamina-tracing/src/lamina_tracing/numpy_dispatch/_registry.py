"""The table of implementations, and what they share: operands as arrays of one dtype and one shape."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from lamina_ir import dtypes

from .. import lax
from .._core.args import resolve_requested_dtype
from ..lax._util.operands import check_axes, check_axis, match_scalars
from ..operators import promote_operands
from .._core.array import ArrayLike, AxisLike, DTypeLike
from .._core.tracer import Tracer, is_object_array, typeof

__all__ = ["as_array", "broadcast", "broadcast_to", "cast", "common_dtype", "common_shape", "describe",
           "find_tracers", "implementations", "implements", "int_dtype", "make_object_array", "ndim_of", "normalize_axes",
           "normalize_axis", "promote_operands", "shape_of", "to_inexact"]

implementations: dict[str, Callable[..., Any]] = {}  # by NumPy name: `sum`, `add.reduce`
F = TypeVar("F", bound=Callable[..., Any])


def implements(*names: str) -> Callable[[F], F]:
    """Register a function as the implementation of these NumPy functions."""
    def register(fun: F) -> F:
        implementations.update(dict.fromkeys(names, fun))
        return fun
    return register


def find_tracers(args: Iterable[Any]) -> Iterator[Tracer]:
    """Yield the tracers among arguments, also those in lists and tuples."""
    for x in args:
        if isinstance(x, Tracer):
            yield x
        elif type(x) in (list, tuple):
            yield from find_tracers(x)


def describe(x: Tracer | None) -> str:
    """Describe a tracer in an error message."""
    return "a traced value" if x is None else f"a traced {x.aval.str_long()}"


def as_array(x: ArrayLike | list[Any] | tuple[Any, ...]) -> ArrayLike:
    """Return a list, tuple or object array as an array; its items may be tracers. Return anything else unchanged."""
    if not isinstance(x, (list, tuple)):
        return as_array(x.tolist()) if is_object_array(x) else x
    if next(find_tracers(x), None) is None:
        made = np.asarray(x)
        return made.astype(dtypes.canonicalize(made.dtype), copy=False)
    parts = common_dtype(*[as_array(v) for v in x])
    return lax.concatenate([lax.expand_dims(p, (0,)) for p in broadcast(*parts)], 0)


def make_object_array(x: Tracer) -> np.ndarray:
    """Return an array of Python objects: the elements of `x`."""
    out = np.empty(x.shape, object)
    for index in np.ndindex(x.shape):
        out[index] = x[index] if index else x  # type: ignore[index]
    return out


def shape_of(x: ArrayLike) -> tuple[int, ...]:
    return typeof(x).shape


def ndim_of(x: ArrayLike) -> int:
    return len(typeof(x).shape)


def cast(x: ArrayLike, dtype: np.dtype) -> ArrayLike:
    """Convert `x` to a dtype if it has another one."""
    return x if typeof(x).dtype == dtype else lax.convert_element_type(x, dtype)


def to_inexact(x: ArrayLike, dtype: DTypeLike | None = None) -> ArrayLike:
    """Convert `x` to `dtype`; if that is None, convert integers and booleans to float."""
    x = as_array(x)
    if dtype is not None:
        return cast(x, resolve_requested_dtype(dtype))
    known = typeof(x).dtype
    return x if dtypes.is_inexact(known) else lax.convert_element_type(x, dtypes.inexact_dtype_for(known))


def common_dtype(*xs: ArrayLike) -> list[ArrayLike]:
    """Convert operands to the dtype to which they promote."""
    xs = tuple(map(as_array, xs))
    if len(xs) == 2:
        xs = match_scalars(*xs)
    avals = [typeof(x) for x in xs]
    dtype, weak = dtypes.promote(*[(a.dtype, a.weak_type) for a in avals])
    return [x if a.dtype == dtype and (weak or not a.weak_type) else lax.convert_element_type(x, dtype)
            for x, a in zip(xs, avals)]


def broadcast_to(x: ArrayLike, shape: Sequence[int]) -> ArrayLike:
    """Broadcast `x` to a shape."""
    x, shape = as_array(x), tuple(shape)
    old = typeof(x).shape
    if old == shape:
        return x
    first = len(shape) - len(old)
    if first < 0 or any(n not in (1, m) for n, m in zip(old, shape[first:])):
        raise ValueError(f"an array of shape {old} does not broadcast to {shape}: trailing axes must be equal, or 1")
    return lax.broadcast_in_dim(x, shape, tuple(range(first, len(shape))))


def common_shape(xs: Iterable[ArrayLike]) -> tuple[int, ...]:
    return np.broadcast_shapes(*map(shape_of, xs))


def broadcast(*xs: ArrayLike) -> list[ArrayLike]:
    """Broadcast operands to one shape."""
    shape = common_shape(xs)
    return [broadcast_to(x, shape) for x in xs]


def normalize_axis(call: str, axis: AxisLike, x: ArrayLike) -> int:
    return check_axis(call, axis, ndim_of(x))


def normalize_axes(call: str, axis: AxisLike, x: ArrayLike) -> tuple[int, ...]:
    """Return axes as numbers from 0; None: all axes."""
    n = ndim_of(x)
    return tuple(range(n)) if axis is None else check_axes(call, axis, n)


def int_dtype() -> np.dtype:
    return dtypes.canonical_int()
