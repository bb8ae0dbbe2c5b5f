"""What the rows share: their table, and arguments as arrays in one dtype and one shape."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import index
from typing import Any, TypeVar

import numpy as np
from lamina_ir import dtypes

from .. import lax
from .._core.args import resolve_requested_dtype
from ..lax._util.operands import check_axes, check_axis, match_scalars
from ..operators import promote_operands
from .._core.tracer import Tracer, typeof

__all__ = ["as_array", "axes_of", "axis_of", "broadcast", "cast", "common", "common_shape", "flat_or_along", "index", "inexact",
           "int_dtype", "moved_last", "ndim_of", "out_at", "promote_operands", "row", "rows", "shape_of", "shown", "stretched",
           "traced_in"]

rows: dict[str, Callable[..., Any]] = {}
out_at: dict[str, int] = {}  # at which position a row takes `out`, which must be None
F = TypeVar("F", bound=Callable[..., Any])


def row(*names: str) -> Callable[[F], F]:
    """Enter a function under names of NumPy's."""
    def enter(fun: F) -> F:
        parameters = fun.__code__.co_varnames[:fun.__code__.co_argcount]
        for name in names:
            rows[name] = fun
            if "out" in parameters:
                out_at[name] = parameters.index("out")
        return fun
    return enter


def traced_in(args: Any) -> Iterator[Tracer]:
    """The traced values among arguments, those in lists and tuples included."""
    for x in args:
        if isinstance(x, Tracer):
            yield x
        elif type(x) in (list, tuple):
            yield from traced_in(x)


def shown(x: Any) -> str:
    """A traced value as errors show it."""
    return "a traced value" if x is None else f"a traced {x.aval.str_long()}"


def as_array(x: Any) -> Any:
    """An argument as an array or number; lists may have traced values in them."""
    if isinstance(x, (Tracer, np.ndarray)) or not isinstance(x, (list, tuple)):
        return x
    if next(traced_in(x), None) is None:
        made = np.asarray(x)
        return made.astype(dtypes.canonicalize(made.dtype), copy=False)
    parts = common(*[as_array(v) for v in x])
    return lax.concatenate([lax.expand_dims(p, (0,)) for p in broadcast(*parts)], 0)


def shape_of(x: Any) -> tuple[int, ...]:
    return typeof(x).shape


def ndim_of(x: Any) -> int:
    return len(typeof(x).shape)


def cast(x: Any, dtype: np.dtype) -> Any:
    """`x` in a dtype; as it is where it has that already."""
    return x if typeof(x).dtype == dtype else lax.convert_element_type(x, dtype)


def inexact(x: Any, dtype: Any = None) -> Any:
    """`x` in float or complex, or in the dtype that was asked for."""
    x = as_array(x)
    if dtype is not None:
        return cast(x, resolve_requested_dtype(dtype))
    known = typeof(x).dtype
    return x if dtypes.is_inexact(known) else lax.convert_element_type(x, dtypes.inexact_dtype_for(known))


def common(*xs: Any) -> list[Any]:
    """Arrays in the dtype that they meet in."""
    xs = tuple(map(as_array, xs))
    if len(xs) == 2:
        xs = match_scalars(*xs)
    avals = [typeof(x) for x in xs]
    dtype, weak = dtypes.promote(*[(a.dtype, a.weak_type) for a in avals])
    return [x if a.dtype == dtype and (weak or not a.weak_type) else lax.convert_element_type(x, dtype)
            for x, a in zip(xs, avals)]


def stretched(x: Any, shape: Sequence[int]) -> Any:
    """`x` broadcast to a shape."""
    x, shape = as_array(x), tuple(shape)
    old = typeof(x).shape
    if old == shape:
        return x
    first = len(shape) - len(old)
    if first < 0 or any(n not in (1, m) for n, m in zip(old, shape[first:])):
        raise ValueError(f"an array of shape {old} does not broadcast to {shape}: trailing axes must be equal, or 1")
    return lax.broadcast_in_dim(x, shape, tuple(range(first, len(shape))))


def common_shape(xs: Sequence[Any]) -> tuple[int, ...]:
    return np.broadcast_shapes(*map(shape_of, xs))


def broadcast(*xs: Any) -> list[Any]:
    """Arrays in the shape that they broadcast to."""
    shape = common_shape(xs)
    return [stretched(x, shape) for x in xs]


def axis_of(call: str, axis: Any, x: Any) -> int:
    return check_axis(call, axis, ndim_of(x))


def axes_of(call: str, axis: Any, x: Any) -> tuple[int, ...]:
    """Axes counted from the front; None: all of them."""
    n = ndim_of(x)
    return tuple(range(n)) if axis is None else check_axes(call, axis, n)


def flat_or_along(call: str, x: Any, axis: Any) -> tuple[Any, int]:
    """`x` and the axis to go along; for None the elements in one row."""
    x = as_array(x)
    if axis is None:
        return lax.reshape(x, (typeof(x).size,)), 0
    return x, axis_of(call, axis, x)


def moved_last(x: Any, axis: int) -> Any:
    """`x` with an axis behind the others."""
    n = ndim_of(x)
    return lax.transpose(x, (*[i for i in range(n) if i != axis], axis)) if axis != n - 1 else x


def int_dtype() -> np.dtype:
    return dtypes.canonical_int()
