"""`jax._src.dtypes`: dtypes and their classes."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes as _dtypes
from lamina_ir import result_type
from lamina_ir.dtypes import extended
from lamina_ir.typing import Value
from lamina_tracing.extend import typeof

__all__ = ["DType", "ExtendedDType", "JAXType", "bit_width", "complex_", "dtype", "extended", "float_", "int_",
           "is_opaque_dtype", "is_python_scalar", "is_weakly_typed", "promote_types", "python_scalar_dtypes", "scalar_type_to_dtype",
           "to_inexact_dtype", "to_numeric_dtype", "uint"]

DType = np.dtype
JAXType = np.dtype
python_scalar_dtypes = {bool: np.dtype("bool"), int: np.dtype("int64"), float: np.dtype("float64"),
                        complex: np.dtype("complex128")}
int_, uint, float_, complex_ = np.int64, np.uint64, np.float64, np.complex128


class ExtendedDType:
    """Base class of extended dtypes in JAX, for `isinstance` and for classes that programs define.

    Arrays with a dtype of such a class are not supported: register a pytree with `jax.tree_util`.
    """


def dtype(x: Any, *, canonicalize: bool = False) -> np.dtype:
    """Return the dtype of a value, or of a scalar type; `canonicalize` narrows it to 32 bits as arrays are.

    >>> dtype(1.5), dtype(1.5, canonicalize=True), dtype(np.zeros(2, "int8"))
    (dtype('float64'), dtype('float32'), dtype('int8'))
    """
    if type(x) in python_scalar_dtypes:
        found = python_scalar_dtypes[type(x)]
    elif isinstance(x, type) and x in python_scalar_dtypes:
        found = python_scalar_dtypes[x]
    elif isinstance(x, (type, str, np.dtype)):
        found = np.dtype(x)
    else:
        found = x.dtype if isinstance(x, (np.ndarray, np.generic)) else typeof(x).dtype
    return _dtypes.canonicalize(found) if canonicalize else found


def is_weakly_typed(x: Value) -> bool:
    """Return whether the type of a value is weak, as that of a Python scalar."""
    return bool(typeof(x).weak_type)


def is_python_scalar(x: object) -> bool:
    """Return whether a value is a Python scalar."""
    return type(x) in python_scalar_dtypes


def scalar_type_to_dtype(typ: type, value: object = None) -> np.dtype:
    """Return the dtype of the values of a Python scalar type.

    >>> scalar_type_to_dtype(float)
    dtype('float32')
    """
    return _dtypes.canonicalize(python_scalar_dtypes[typ])


def promote_types(a: Any, b: Any) -> np.dtype:
    """Return the dtype in which values of two dtypes meet.

    >>> promote_types("int8", "float16")
    dtype('float16')
    """
    return np.dtype(result_type(_dtypes.as_dtype(a), _dtypes.as_dtype(b)))


def to_numeric_dtype(dtype: Any) -> np.dtype:
    """Return int32 for bool, else the dtype."""
    found = _dtypes.as_dtype(dtype)
    return np.dtype("int32") if found == np.dtype(bool) else found


def to_inexact_dtype(dtype: Any) -> np.dtype:
    """Return the dtype of floating-point results for operands of a dtype, before it is narrowed to 32 bits.

    >>> to_inexact_dtype("int32"), to_inexact_dtype("int64"), to_inexact_dtype("bfloat16")
    (dtype('float32'), dtype('float64'), dtype(bfloat16))
    """
    found = _dtypes.as_dtype(dtype)
    if _dtypes.is_inexact(found):
        return found
    return np.dtype("float64" if found.itemsize == 8 else "float32")


def bit_width(dtype: Any) -> int:
    """Return the number of bits of an element."""
    return _dtypes.itemsize_bits(dtype)


def is_opaque_dtype(dtype: object) -> bool:
    """Return whether a dtype is extended, as that of keys."""
    return isinstance(dtype, ExtendedDType) or isinstance(dtype, np.dtype) and _dtypes.is_key(dtype)
