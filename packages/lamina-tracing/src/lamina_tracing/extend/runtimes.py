"""Extension API for new array types: the arrays of the NumPy evaluator, and the set of types that count as arrays.

`array_types` is the set of NumPy types that are accepted as arrays: `numpy.ndarray` and the scalar types of every
dtype.
"""
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr

from .._core.array import HostArray, array_types, register_array_type

__all__ = ["HostArray", "array_types", "register_array_type"]

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
