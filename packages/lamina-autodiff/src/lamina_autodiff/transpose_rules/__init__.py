"""Transpose rules, one module per primitive family; importing the package fills `transpose_rules`."""
from . import (callbacks, calls, collectives, control, convolution, custom, elementwise, factorizations, fft,
               indexing, products, random_bits, reductions, shape, solves, sorting, special, windows)

__all__ = ["callbacks", "calls", "collectives", "control", "convolution", "custom", "elementwise", "factorizations",
           "fft", "indexing", "products", "random_bits", "reductions", "shape", "solves", "sorting", "special",
           "windows"]
