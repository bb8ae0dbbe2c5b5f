"""Create arrays from a shape: indices along an axis, and one value everywhere."""
from __future__ import annotations

from functools import partial
from collections.abc import Sequence

import numpy as np
from lamina_ir import dtypes, evaluate_primitive, prims, ShapeError
from lamina_ir.typing import Sharding, Value

from .._jit import hooks
from .._core.array import Array, DTypeLike
from .._core.tracer import Tracer
from .._diagnostics.argument_errors import rename_errors
from ._util.operands import _SCALARS, ArrayLike, as_dtype, as_ints, bind, check_axis, typeof
from ._util.conversions import convert_element_type
from ._sharding.out_sharding import call_with_out_sharding, check_out_sharding, constrain_sharding

__all__ = ["iota", "broadcasted_iota", "full", "full_like", "zeros_like_array"]


@rename_errors
def iota(dtype: DTypeLike, size: int) -> Array:
    """Return `0, 1, ..., size - 1` in the given dtype.

    >>> iota("int32", 3)
    Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


@rename_errors
def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int, *, out_sharding: Sharding = None) -> Array:
    """Return an array that holds at each position the index along one axis.

    Args:
      dtype: a number's dtype.
      shape: the result's shape.
      dimension: the axis.
      out_sharding: None, or the sharding of the result over `Explicit` axes: a `PartitionSpec` or a `NamedSharding`.

    >>> broadcasted_iota("int32", (2, 2), 0)
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    if out_sharding is not None:
        check_out_sharding("broadcasted_iota", out_sharding)
        return call_with_out_sharding("broadcasted_iota", partial(broadcasted_iota, dtype, shape, dimension), (), out_sharding)
    shape = as_ints("iota", "shape", shape)
    return bind(prims.iota_p, dtype=as_dtype("iota", "dtype", dtype), shape=shape,
                dimension=check_axis("iota", dimension, len(shape)))


@rename_errors
def full(shape: Sequence[int], fill_value: ArrayLike, dtype: DTypeLike | None = None, *,
         sharding: Sharding = None) -> Array:
    """Return an array with every element `fill_value`.

    Args:
      shape: the result's shape.
      fill_value: scalar; for a key dtype a key, or the value of each uint32 of its data.
      dtype: the result's dtype; None for that of `fill_value` (weak, when it is a Python number).
      sharding: the sharding of the result, as an array's `.sharding`; a hint while a program is staged.

    >>> full((2,), 7, "float32")
    Array([7., 7.], dtype=float32)
    """
    shape = as_ints("full", "shape", shape)
    aval = typeof(fill_value)
    if aval.shape:
        raise ShapeError(f"full: fill_value must be a scalar; got {aval.str_long()}")
    if dtype is not None:
        dtype = as_dtype("full", "dtype", dtype)
        if dtype == dtypes.float0:  # the zero tangent of integers, whatever the value: no device has this dtype
            return np.zeros(shape, dtype)  # type: ignore[return-value]  # a zero tangent
        if dtypes.is_key(dtype) and type(fill_value) is int:
            if not 0 <= fill_value < 2**32:
                raise OverflowError(f"full: key data are uint32 numbers; got fill_value {fill_value}")
            fill_value = np.full((), fill_value, dtype)
        elif type(fill_value) in _SCALARS:
            fill_value = evaluate_primitive(prims.convert_element_type_p, (np.asarray(fill_value),),
                                            {"new_dtype": dtype, "weak_type": False})[()]
        elif aval.dtype != dtype or aval.weak_type:
            fill_value = convert_element_type(fill_value, dtype)
    return _put_with_sharding(bind(prims.broadcast_in_dim_p, fill_value, shape=shape, broadcast_dimensions=()), sharding)


def _put_with_sharding(x: Value, sharding: Sharding) -> Value:
    """Place an array with a sharding; a traced value gets a sharding constraint."""
    if sharding is None:
        return x
    if isinstance(x, Tracer):
        return constrain_sharding(x, sharding)
    return hooks.device_put(x, sharding)


@rename_errors
def full_like(x: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Sequence[int] | None = None,
              sharding: Sharding = None) -> Array:
    """Return an array of the shape and dtype of `x` with every element `fill_value`.

    Args:
      x: array, or anything with a shape and a dtype.
      fill_value: number.
      dtype, shape: instead of those of `x`.
      sharding: the sharding of the result; None: unspecified.

    >>> full_like(np.ones(2, np.float32), 3)
    Array([3., 3.], dtype=float32)
    """
    aval = x if hasattr(x, "shape") and hasattr(x, "dtype") else typeof(x)
    made = full(aval.shape if shape is None else shape, fill_value,
                dtypes.canonicalize(aval.dtype) if dtype is None else dtype)
    if dtype is None and getattr(aval, "weak_type", False):
        made = bind(prims.convert_element_type_p, made, new_dtype=aval.dtype, weak_type=True)
    return _put_with_sharding(made, sharding)


@rename_errors
def zeros_like_array(x: ArrayLike) -> Array:
    """Return zeros of the shape and dtype of `x`.

    >>> zeros_like_array(np.ones(2, np.float32))
    Array([0., 0.], dtype=float32)
    """
    return full_like(x, 0)
