"""Which dtype values meet in, and which of Python's numbers a value is like."""
from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .avals import aval_of

__all__ = ["result_type", "scalar_type_of"]

_PYTHON = (bool, int, float, complex)


def _pair(x: Any) -> tuple[np.dtype, bool]:
    if isinstance(x, type) and x in _PYTHON:
        return aval_of(x()).dtype, x is not bool
    if isinstance(x, (str, type, np.dtype)):
        return dtypes.canonical(x), False
    aval = getattr(x, "aval", None)
    aval = aval_of(x) if aval is None else aval
    return aval.dtype, aval.weak_type


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype that values or dtypes meet in, and, if asked for, whether it is weak.

    Args:
      *args: arrays, numbers, dtypes or names of them; `int`, `float`, `complex` stand for Python's numbers.
      return_weak_type_flag: whether to give the weakness too.
    Returns:
      A dtype, or the pair of dtype and truth value.
    Raises:
      ValueError: there are no arguments.
      TypeError: one of them is neither an array, a number nor a dtype.

    >>> result_type(1, 2.0, return_weak_type_flag=True), result_type(1, np.int8(2))
    ((dtype('float32'), True), dtype('int8'))
    """
    if not args:
        raise ValueError("result_type: expected at least one array, number or dtype; got none")
    found = dtypes.promote(*map(_pair, args))
    return found if return_weak_type_flag else found[0]


def scalar_type_of(x: Any) -> type:
    """The type of Python's numbers that a value is of: `bool`, `int`, `float` or `complex`.

    Args:
      x: an array, a number or a dtype.
    Returns:
      The type.
    Raises:
      TypeError: it is nothing of the kind.

    >>> scalar_type_of(np.int8(1)), scalar_type_of("bfloat16")
    (<class 'int'>, <class 'float'>)
    """
    dtype = _pair(x)[0]
    for kind, holds in zip(_PYTHON, (dtypes.is_bool, dtypes.is_integer, dtypes.is_float, dtypes.is_complex)):
        if holds(dtype):
            return kind
    raise TypeError(f"scalar_type_of: there is no number in Python like a {dtype}")
