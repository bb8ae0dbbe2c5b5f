"""The lowering rows, one module per family of ops; importing this package fills the table."""
from . import (callbacks, calls, collectives, control, convolution, cumulations, custom, elementwise, factorizations,
               fft, indexing, maps, products, random_bits, random_keys, reductions, shape, solves, sorting, special, windows)

__all__ = ["callbacks", "calls", "collectives", "control", "convolution", "cumulations", "custom", "elementwise",
           "factorizations", "fft", "indexing", "maps", "products", "random_bits", "random_keys",
           "reductions", "shape", "solves", "sorting",
           "special", "windows"]
