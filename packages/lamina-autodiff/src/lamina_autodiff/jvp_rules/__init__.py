"""One module per family; importing the package fills the table."""
from . import (callbacks, calls, collectives, control, convolution, custom, elementwise, factorizations, fft,
               indexing, products, random_bits, random_keys, reductions, shape, solves, sorting, special, windows)

__all__ = ["callbacks", "calls", "collectives", "control", "convolution", "custom", "elementwise", "factorizations",
           "fft", "indexing", "products", "random_bits", "random_keys", "reductions", "shape", "solves", "sorting", "special",
           "windows"]
