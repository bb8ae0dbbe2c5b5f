"""For people who bring arrays of their own: the arrays of NumPy's evaluator, and types that are taken for arrays."""
from ..array import HostArray, register_array_type

__all__ = ["HostArray", "register_array_type"]
