"""Lowering rules of primitives that slide a window over an array: convolutions, and reductions of windows."""
from . import convolution, grouped_convolution, max_pooling, reduce_windows, shifted_windows

__all__ = ["convolution", "grouped_convolution", "max_pooling", "reduce_windows", "shifted_windows"]
