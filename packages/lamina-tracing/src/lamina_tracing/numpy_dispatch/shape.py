"""Changes of shape, and properties that are known from the type of a traced value."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from lamina_ir import ShapedArray, dtypes

from .. import lax
from .._core.args import resolve_requested_dtype
from .._core.array import Array, ArrayLike, AxisLike, DTypeLike, ShapeLike
from .._core.tracer import Tracer, typeof
from ._registry import (as_array, broadcast_to, cast, find_tracers, implements, ndim_of, normalize_axes, normalize_axis,
                        shape_of)

__all__: list[str] = []


def _resolve_sizes(known: ShapedArray, shape: ShapeLike | None) -> tuple[int, ...]:
    """Return a requested shape with the size for -1 filled in."""
    sizes = [int(n) for n in (shape if isinstance(shape, (list, tuple, np.ndarray)) else (shape,))]
    if sizes.count(-1) == 1:
        rest = math.prod([n for n in sizes if n != -1])
        if not rest or known.size % rest:
            raise ValueError(f"numpy.reshape: an array of {known.size} elements has no shape {tuple(sizes)}")
        sizes[sizes.index(-1)] = known.size // rest
    if math.prod(sizes) != known.size or min(sizes, default=0) < 0:
        raise ValueError(f"numpy.reshape: an array of {known.size} elements has no shape {tuple(sizes)}")
    return tuple(sizes)


@implements("reshape")
def reshape(a: ArrayLike, /, shape: ShapeLike | None = None, order: str = "C", *, newshape: ShapeLike | None = None,
            copy: bool | None = None) -> Array:
    x = as_array(a)
    sizes = _resolve_sizes(typeof(x), newshape if shape is None else shape)
    if order == "F":
        return transpose(lax.reshape(transpose(x), sizes[::-1]))
    if order not in ("C", "A", "K"):
        raise ValueError(f"numpy.reshape of a traced value: order must be 'C' or 'F'; got {order!r}")
    return lax.reshape(x, sizes)


@implements("ravel")
def ravel(a: ArrayLike, order: str = "C") -> Array:
    return reshape(a, -1, order)


@implements("transpose")
def transpose(a: ArrayLike, axes: AxisLike = None) -> Array:
    x = as_array(a)
    order = tuple(range(ndim_of(x)))[::-1] if axes is None else normalize_axes("transpose", axes, x)
    if len(order) != ndim_of(x):
        raise ValueError(f"numpy.transpose: axes {axes} do not name the {ndim_of(x)} axes of the array")
    return lax.transpose(x, order)


@implements("matrix_transpose")
def matrix_transpose(x: ArrayLike, /) -> Array:
    x = as_array(x)
    if ndim_of(x) < 2:
        raise ValueError(f"numpy.matrix_transpose: needs at least 2 axes; got {typeof(x).str_long()}")
    return swapaxes(x, -1, -2)


@implements("swapaxes")
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    x = as_array(a)
    order = list(range(ndim_of(x)))
    i, j = normalize_axis("swapaxes", axis1, x), normalize_axis("swapaxes", axis2, x)
    order[i], order[j] = j, i
    return lax.transpose(x, order)


@implements("squeeze")
def squeeze(a: ArrayLike, axis: AxisLike = None) -> Array:
    x = as_array(a)
    if axis is None:
        axis = tuple([i for i, n in enumerate(shape_of(x)) if n == 1])
    axes = normalize_axes("squeeze", axis, x)
    if any(shape_of(x)[i] != 1 for i in axes):
        raise ValueError(f"numpy.squeeze: only axes of length 1 can be removed; got axis {axis} of {typeof(x).str_long()}")
    return lax.squeeze(x, axes)


@implements("expand_dims")
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    return lax.expand_dims(as_array(a), (int(axis),) if isinstance(axis, (int, np.integer)) else tuple(axis))


@implements("broadcast_to")
def numpy_broadcast_to(array: ArrayLike, shape: ShapeLike, subok: bool = False) -> ArrayLike:
    return broadcast_to(array, (int(shape),) if isinstance(shape, (int, np.integer)) else shape)


@implements("copy")
def copy(a: ArrayLike, order: str = "K", subok: bool = False) -> ArrayLike:
    return as_array(a)  # traced values are immutable, so they need no copy


@implements("astype")
def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = True, device: object = None) -> ArrayLike:
    return cast(x, resolve_requested_dtype(dtype))


# --- known from the type ---------------------------------------------------------------------------------------------


@implements("shape")
def shape(a: ArrayLike) -> tuple[int, ...]:
    return shape_of(as_array(a))


@implements("ndim")
def ndim(a: ArrayLike) -> int:
    return ndim_of(as_array(a))


@implements("size")
def size(a: ArrayLike, axis: AxisLike = None) -> int:
    x = as_array(a)
    return math.prod([shape_of(x)[i] for i in normalize_axes("size", axis, x)])


@implements("iscomplexobj")
def iscomplexobj(x: ArrayLike) -> bool:
    return dtypes.is_complex(typeof(as_array(x)).dtype)


@implements("isrealobj")
def isrealobj(x: ArrayLike) -> bool:
    return not iscomplexobj(x)


@implements("result_type")
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    arrays = (Tracer, np.ndarray, np.generic, int, float, complex)
    avals = [typeof(x) if isinstance(x, arrays) else ShapedArray((), dtypes.canonicalize(x)) for x in arrays_and_dtypes]
    return dtypes.promote(*[(a.dtype, a.weak_type) for a in avals])[0]


@implements("common_type")
def common_type(*arrays: Any) -> type:
    return dtypes.inexact_dtype_for(result_type(*arrays)).type


@implements("can_cast")
def can_cast(from_: Any, to: Any, casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe") -> bool:
    return np.can_cast(typeof(from_).dtype if isinstance(from_, Tracer) else from_, to, casting)


@implements("array_repr", "array_str", "array2string")
def array_repr(a: ArrayLike, *args: Any, **kwargs: Any) -> str:
    return repr(next(find_tracers((a,)), a))
