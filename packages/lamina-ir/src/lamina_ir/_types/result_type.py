"""Result dtype of promotion, and the Python number type of a value."""
from __future__ import annotations


import numpy as np

from . import dtypes
from .avals import aval_of
from ..typing import Value
from .._typing import DTypeSpec

__all__ = ["result_type", "scalar_type_of"]

_PYTHON_TYPES = (bool, int, float, complex)


def _dtype_and_weakness(x: Value | DTypeSpec) -> tuple[np.dtype, bool]:
    if isinstance(x, type) and x in _PYTHON_TYPES:
        return aval_of(x()).dtype, x is not bool
    if isinstance(x, (str, type, np.dtype)):
        return dtypes.canonicalize(x), False
    aval = getattr(x, "aval", None)
    aval = aval_of(x) if aval is None else aval
    return aval.dtype, aval.weak_type


def result_type(*args: Value | DTypeSpec, return_weak_type_flag: bool = False) -> np.dtype | tuple[np.dtype, bool]:
    """Return the dtype to which values or dtypes promote and, if requested, whether it is weak.

    Args:
      *args: arrays, numbers, dtypes or dtype names; `int`, `float`, `complex` mean Python numbers.
      return_weak_type_flag: whether to return the weak type flag too.
    Returns:
      A dtype, or the pair (dtype, bool).
    Raises:
      ValueError: there are no arguments.
      TypeError: an argument is neither an array, a number nor a dtype.

    >>> result_type(1, 2.0, return_weak_type_flag=True), result_type(1, np.int8(2))
    ((dtype('float32'), True), dtype('int8'))
    """
    if not args:
        raise ValueError("result_type: expected at least one array, number or dtype; got none")
    found = dtypes.promote(*map(_dtype_and_weakness, args))
    return found if return_weak_type_flag else found[0]


def scalar_type_of(x: Value | DTypeSpec) -> type:
    """Return the Python number type that corresponds to a value: `bool`, `int`, `float` or `complex`.

    Args:
      x: an array, a number or a dtype.
    Returns:
      The type.
    Raises:
      TypeError: no Python number type corresponds to it.

    >>> scalar_type_of(np.int8(1)), scalar_type_of("bfloat16")
    (<class 'int'>, <class 'float'>)
    """
    dtype = _dtype_and_weakness(x)[0]
    for kind, holds in zip(_PYTHON_TYPES, (dtypes.is_bool, dtypes.is_integer, dtypes.is_float, dtypes.is_complex)):
        if holds(dtype):
            return kind
    raise TypeError(f"scalar_type_of: x must be a bool, a number or an array of them; got dtype {dtype}")
