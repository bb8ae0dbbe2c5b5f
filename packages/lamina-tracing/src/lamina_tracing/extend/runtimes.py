"""For people who bring arrays of their own: the arrays of NumPy's evaluator, and types that are taken for arrays.

`array_types` is the set of NumPy's types that are taken for arrays: `numpy.ndarray` and the scalars of every dtype.
"""
from ..array import HostArray, array_types, register_array_type

__all__ = ["HostArray", "array_types", "register_array_type"]
