"""Conversions between dtypes: by value, by bits, by precision."""
from __future__ import annotations

import numpy as np
from lamina_ir import dtypes
from lamina_ir.prims import bitcast_convert_type_p, convert_element_type_p, reduce_precision_p
from lamina_ir.typing import Value

from ..._core.array import Array, ArrayLike, DTypeLike
from .operands import as_dtype, as_int, bind, typeof

__all__ = ["bitcast_convert_type", "convert_element_type", "dtype", "reduce_precision"]


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Convert `operand` to another dtype; the result is never weakly typed.

    Complex to real drops the imaginary part; float to integer truncates and saturates; to bool tests for
    nonzero.

    >>> convert_element_type(np.float32([1.7, -1.7, 3e9]), "int32")
    Array([         1,         -1, 2147483647], dtype=int32)
    """
    if new_dtype.__class__ is not np.dtype or new_dtype.itemsize >= 8:
        new_dtype = as_dtype("convert_element_type", "new_dtype", new_dtype)
    aval = typeof(operand)
    if aval.dtype == new_dtype and not aval.weak_type and isinstance(operand, Array):
        return operand
    return bind(convert_element_type_p, operand, new_dtype=new_dtype, weak_type=False)


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round `operand` to floats of this format, in its own dtype: half to even, overflow to infinity, underflow to 0.

    Derivative: the identity, its values rounded likewise.

    >>> reduce_precision(np.float32(1.2345678), 5, 3)
    Array(1.25, dtype=float32)
    """
    return bind(reduce_precision_p, operand, exponent_bits=as_int("reduce_precision", "exponent_bits", exponent_bits),
                mantissa_bits=as_int("reduce_precision", "mantissa_bits", mantissa_bits))


def dtype(x: Value, *, canonicalize: bool = True) -> np.dtype:
    """Return the dtype of an array, a scalar or a scalar type; with `canonicalize`, the dtype of arrays made from it.

    >>> dtype(np.zeros(3)), dtype(np.zeros(3), canonicalize=False)
    (dtype('float32'), dtype('float64'))
    """
    if isinstance(x, type):
        return dtypes.canonicalize(x) if canonicalize else np.dtype(x)
    return typeof(x).dtype if canonicalize or not isinstance(x, (np.ndarray, np.generic)) else x.dtype


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Reinterpret the bits of `operand` as another dtype.

    Twice as wide: the last axis, of size 2, is removed; half as wide: a last axis of size 2 is added; and so on.

    >>> bitcast_convert_type(np.float32(1), "uint32"), bitcast_convert_type(np.float32(1), "uint16").shape
    (Array(1065353216, dtype=uint32), (2,))
    """
    return bind(bitcast_convert_type_p, operand, new_dtype=as_dtype("bitcast_convert_type", "new_dtype", new_dtype))
