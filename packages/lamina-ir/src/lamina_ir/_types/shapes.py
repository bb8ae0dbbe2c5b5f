"""`shaped` for users: it validates shape and dtype and raises clear errors.

Inside this package, `avals.shaped` is used, which validates less and caches its results.
"""
from __future__ import annotations

from operator import index

import numpy as np

from . import avals, dtypes
from .._util.short_repr import short_repr
from .avals import ShapedArray
from ..errors import DTypeError, ShapeError
from .._typing import DTypeSpec, ShapeSpec

__all__ = ["check_dtype", "check_shape", "shaped"]


def check_shape(call: str, shape: ShapeSpec) -> tuple[int, ...]:
    """Return a shape as a tuple of ints; an int means one axis. ShapeError if it is invalid.

    >>> check_shape("mine", [np.int64(2), 3]), check_shape("mine", 4)
    ((2, 3), (4,))
    """
    if isinstance(shape, (str, bytes, dict)):
        raise ShapeError(f"{call}: expected a shape, a tuple of ints; got {short_repr(shape)}")
    try:
        one = isinstance(shape, (int, np.integer)) and not isinstance(shape, bool)
        found = tuple([index(n) for n in ((shape,) if one else shape)])
    except TypeError:
        raise ShapeError(f"{call}: expected a shape, a tuple of ints; got {short_repr(shape)}") from None
    if any(n < 0 for n in found):
        raise ShapeError(f"{call}: sizes of a shape must be at least 0; got {found}")
    return found


def check_dtype(call: str, spec: DTypeSpec) -> np.dtype:
    """Return the dtype that `spec` specifies; DTypeError if it is invalid.

    NumPy's names take precedence over printed names: "i8" has eight bytes.

    >>> check_dtype("mine", "f32"), check_dtype("mine", int)
    (dtype('float32'), dtype('int64'))
    """
    try:
        if spec is not None:  # np.dtype(None) is float64
            return dtypes.as_dtype(spec)
    except (DTypeError, ValueError):
        pass
    try:
        return dtypes.from_short_name(spec)
    except (KeyError, TypeError):
        raise DTypeError(f'{call}: expected a dtype such as "float32"; got {short_repr(spec)}'
                         + dtypes.suggest_dtype(spec)) from None


def shaped(shape: ShapeSpec, dtype: DTypeSpec, weak_type: bool = False) -> ShapedArray:
    """Return the type of arrays with this shape and dtype.

    Args:
      shape: a tuple of ints.
      dtype: a dtype, or anything that specifies one.
      weak_type: whether the dtype comes from a Python number.
    Raises:
      ShapeError: `shape` is invalid.
      DTypeError: `dtype` is invalid.

    >>> shaped((8, 3), "float32")
    ShapedArray(float32[8,3])
    >>> shaped((-1,), "float32")
    Traceback (most recent call last):
    lamina_ir.errors.ShapeError: shaped: sizes of a shape must be at least 0; got (-1,)
    """
    try:
        return avals.shaped(shape, dtype, weak_type)
    except (TypeError, ValueError):  # lists are not hashable
        return avals.shaped(check_shape("shaped", shape), check_dtype("shaped", dtype), bool(weak_type))
