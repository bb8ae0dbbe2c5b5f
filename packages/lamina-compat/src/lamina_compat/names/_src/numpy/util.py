"""`jax._src.numpy.util`: promote arguments of functions of arrays."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_ir.typing import Value
from lamina_numpy import asarray, broadcast_arrays, broadcast_shapes, result_type
from lamina_tracing.extend import typeof

from ..dtypes import to_inexact_dtype

__all__ = ["check_arraylike", "ensure_arraylike", "promote_args", "promote_args_inexact", "promote_dtypes",
           "promote_dtypes_complex", "promote_dtypes_inexact", "promote_dtypes_numeric", "promote_shapes"]


def _convert(dtype: np.dtype, args: tuple[Value, ...]) -> list[Any]:
    dtype = dtypes.canonicalize(dtype)
    if not all([typeof(x).weak_type for x in args]):
        return [asarray(x, dtype) for x in args]
    arrays = [asarray(x) for x in args]  # Python scalars stay weak
    if dtype.kind == "f":  # a product with a Python float is weak too
        return [x if x.dtype == dtype else x * 1.0 for x in arrays]
    return [x if x.dtype == dtype else x.astype(dtype) for x in arrays]


def promote_dtypes(*args: Value) -> list[Any]:
    """Return the arguments as arrays of one dtype.

    >>> [x.dtype.name for x in promote_dtypes(np.ones(2, "int8"), np.ones(2, "float16"))]
    ['float16', 'float16']
    """
    return _convert(result_type(*args), args)


def promote_dtypes_inexact(*args: Value) -> list[Any]:
    """Return the arguments as arrays of one dtype, which is floating-point or complex.

    >>> [x.dtype.name for x in promote_dtypes_inexact(1, np.ones(2, "int8"))]
    ['float32', 'float32']
    """
    return _convert(to_inexact_dtype(result_type(*args)), args)


def promote_dtypes_numeric(*args: Value) -> list[Any]:
    """Return the arguments as arrays of one dtype, which is not bool."""
    found = result_type(*args)
    return _convert(np.dtype("int32") if found == np.dtype(bool) else found, args)


def promote_dtypes_complex(*args: Value) -> list[Any]:
    """Return the arguments as arrays of one complex dtype."""
    return _convert(result_type(to_inexact_dtype(result_type(*args)), np.dtype("complex64")), args)


def promote_shapes(fun_name: str, *args: Value) -> list[Any]:
    """Return the arguments with dimensions of size 1 added, so that they have the same rank."""
    arrays = [asarray(x) for x in args]
    broadcast_shapes(*[x.shape for x in arrays])
    rank = max((x.ndim for x in arrays), default=0)
    return [x if x.ndim == rank else x.reshape((1,) * (rank - x.ndim) + x.shape) for x in arrays]


def promote_args(fun_name: str, *args: Value) -> list[Any]:
    """Return the arguments as arrays of one dtype and rank."""
    check_arraylike(fun_name, *args)
    return promote_shapes(fun_name, *promote_dtypes(*args))


def promote_args_inexact(fun_name: str, *args: Value) -> list[Any]:
    """Return the arguments as arrays of one floating-point or complex dtype and one rank."""
    check_arraylike(fun_name, *args)
    return promote_shapes(fun_name, *promote_dtypes_inexact(*args))


def check_arraylike(fun_name: str, *args: Any, emit_warning: bool = False, stacklevel: int = 3) -> None:
    """Raise TypeError for an argument that is neither an array nor a scalar."""
    for i, x in enumerate(args):
        try:
            typeof(x)
        except TypeError:
            raise TypeError(f"{fun_name} requires ndarray or scalar arguments, got {type(x)} at position {i}.") from None


def ensure_arraylike(fun_name: str, *args: Any) -> Any:
    """Return the arguments as arrays; TypeError for one that is neither an array nor a scalar."""
    check_arraylike(fun_name, *args)
    return asarray(args[0]) if len(args) == 1 else tuple([asarray(x) for x in args])


_broadcast_arrays = broadcast_arrays
