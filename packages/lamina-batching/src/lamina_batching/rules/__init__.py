"""Batching rules, one module per primitive family; importing the package fills `batching_rules`."""
from . import (callbacks, calls, collectives, control, convolution, custom, elementwise, factorizations, fft,
               indexing, products, random_bits, random_keys, reductions, shape, solves, sorting, special, windows)

__all__ = ["callbacks", "calls", "collectives", "control", "convolution", "custom", "elementwise", "factorizations",
           "fft", "indexing", "products", "random_bits", "random_keys", "reductions", "shape", "solves", "sorting", "special",
           "windows"]
