"""Extension API for new array types: the arrays of the NumPy evaluator, and the set of types that count as arrays.

`array_types` is the set of NumPy types that are accepted as arrays: `numpy.ndarray` and the scalar types of every
dtype.
"""
from ..array import HostArray, array_types, register_array_type

__all__ = ["HostArray", "array_types", "register_array_type"]
