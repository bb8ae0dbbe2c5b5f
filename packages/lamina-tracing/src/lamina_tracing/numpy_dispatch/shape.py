"""The same elements in another shape or order; questions about shapes and types."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import ShapedArray, dtypes

from .. import lax
from .._core.args import resolve_requested_dtype
from .._core.tracer import Tracer, typeof
from ._registry import as_array, axes_of, axis_of, cast, common_shape, ndim_of, row, shape_of, stretched, traced_in

__all__ = ["reshape", "transpose"]


def _sizes(call: str, known: ShapedArray, shape: Any) -> tuple[int, ...]:
    sizes = [int(n) for n in (shape if isinstance(shape, (list, tuple, np.ndarray)) else (shape,))]
    if sizes.count(-1) == 1:
        rest = math.prod([n for n in sizes if n != -1])
        if not rest or known.size % rest:
            raise ValueError(f"numpy.{call}: an array of {known.size} elements has no shape {tuple(sizes)}")
        sizes[sizes.index(-1)] = known.size // rest
    if math.prod(sizes) != known.size or min(sizes, default=0) < 0:
        raise ValueError(f"numpy.{call}: an array of {known.size} elements has no shape {tuple(sizes)}")
    return tuple(sizes)


@row("reshape")
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Any:
    x = as_array(a)
    sizes = _sizes("reshape", typeof(x), newshape if shape is None else shape)
    if order == "F":
        return transpose(lax.reshape(transpose(x), sizes[::-1]))
    _known_order("reshape", order)
    return lax.reshape(x, sizes)


def _known_order(call: str, order: str) -> None:
    if order not in ("C", "A", "K"):
        raise ValueError(f"numpy.{call} of a traced value: order must be 'C' or 'F'; got {order!r}")


@row("ravel")
def ravel(a: Any, order: str = "C") -> Any:
    return reshape(a, -1, order)


@row("transpose")
def transpose(a: Any, axes: Any = None) -> Any:
    x = as_array(a)
    order = tuple(range(ndim_of(x)))[::-1] if axes is None else axes_of("transpose", axes, x)
    if len(order) != ndim_of(x):
        raise ValueError(f"numpy.transpose: axes {axes} do not name the {ndim_of(x)} axes of the array")
    return lax.transpose(x, order)


@row("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(x: Any, /) -> Any:
    x = as_array(x)
    if ndim_of(x) < 2:
        raise ValueError(f"numpy.matrix_transpose: needs at least 2 axes; got {typeof(x).str_long()}")
    return swapaxes(x, -1, -2)


@row("swapaxes")
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    x = as_array(a)
    order = list(range(ndim_of(x)))
    i, j = axis_of("swapaxes", axis1, x), axis_of("swapaxes", axis2, x)
    order[i], order[j] = j, i
    return lax.transpose(x, order)


@row("moveaxis")
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    x = as_array(a)
    source, destination = axes_of("moveaxis", source, x), axes_of("moveaxis", destination, x)
    if len(source) != len(destination):
        raise ValueError("numpy.moveaxis: source and destination must be as many")
    order = [i for i in range(ndim_of(x)) if i not in source]
    for to, at in sorted(zip(destination, source)):
        order.insert(to, at)
    return lax.transpose(x, order)


@row("rollaxis")
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    x = as_array(a)
    n, axis = ndim_of(x), axis_of("rollaxis", axis, x)
    start = start + n if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


@row("squeeze")
def squeeze(a: Any, axis: Any = None) -> Any:
    x = as_array(a)
    if axis is None:
        axis = tuple([i for i, n in enumerate(shape_of(x)) if n == 1])
    axes = axes_of("squeeze", axis, x)
    if any(shape_of(x)[i] != 1 for i in axes):
        raise ValueError(f"numpy.squeeze: only axes of length 1 go; got axis {axis} of {typeof(x).str_long()}")
    return lax.squeeze(x, axes)


@row("expand_dims")
def expand_dims(a: Any, axis: Any) -> Any:
    return lax.expand_dims(as_array(a), (int(axis),) if isinstance(axis, (int, np.integer)) else tuple(axis))


@row("broadcast_to")
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    return stretched(array, (int(shape),) if isinstance(shape, (int, np.integer)) else shape)


@row("broadcast_arrays")
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    xs = tuple(map(as_array, args))
    shape = common_shape(xs)
    return tuple([stretched(x, shape) for x in xs])


@row("flip")
def flip(m: Any, axis: Any = None) -> Any:
    x = as_array(m)
    return lax.rev(x, axes_of("flip", axis, x))


@row("fliplr")
def fliplr(m: Any) -> Any:
    return flip(m, 1)


@row("flipud")
def flipud(m: Any) -> Any:
    return flip(m, 0)


@row("rot90")
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    x = as_array(m)
    i, j = axes_of("rot90", tuple(axes), x)
    k %= 4
    if k == 2:
        return flip(x, (i, j))
    if k == 1:
        return swapaxes(flip(x, j), i, j)
    return flip(swapaxes(x, i, j), j) if k else x


def _at_least(n: int, widen: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
    @row(f"atleast_{n}d")
    def at_least(*arys: Any) -> Any:
        found = tuple([x if ndim_of(x) >= n else lax.reshape(x, widen(shape_of(x))) for x in map(as_array, arys)])
        return found[0] if len(found) == 1 else found


_at_least(1, lambda s: (1, *s))
_at_least(2, lambda s: (1,) * (2 - len(s)) + s)
_at_least(3, lambda s: (1, *s, 1) if len(s) == 1 else (*s, 1) if len(s) == 2 else (1, 1, 1))


@row("copy")
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    return as_array(a)  # nothing changes one, so one is enough


@row("astype")
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return cast(x, resolve_requested_dtype(dtype))


# --- what is known of a traced value ---------------------------------------------------------------------------------


@row("shape")
def shape(a: Any) -> tuple[int, ...]:
    return shape_of(as_array(a))


@row("ndim")
def ndim(a: Any) -> int:
    return ndim_of(as_array(a))


@row("size")
def size(a: Any, axis: Any = None) -> int:
    x = as_array(a)
    return math.prod([shape_of(x)[i] for i in axes_of("size", axis, x)])


@row("iscomplexobj")
def iscomplexobj(x: Any) -> bool:
    return dtypes.is_complex(typeof(as_array(x)).dtype)


@row("isrealobj")
def isrealobj(x: Any) -> bool:
    return not iscomplexobj(x)


@row("result_type")
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    known = [(a.dtype, a.weak_type) for a in [typeof(x) if isinstance(x, (Tracer, np.ndarray, np.generic, int, float, complex))
                                              else ShapedArray((), dtypes.canonicalize(x)) for x in arrays_and_dtypes]]
    return dtypes.promote(*known)[0]


@row("common_type")
def common_type(*arrays: Any) -> type:
    return dtypes.inexact_dtype_for(result_type(*arrays)).type


@row("can_cast")
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(typeof(from_).dtype if isinstance(from_, Tracer) else from_, to, casting)


@row("array_repr", "array_str", "array2string")
def text(a: Any, *args: Any, **kwargs: Any) -> str:
    return repr(next(traced_in((a,)), a))
