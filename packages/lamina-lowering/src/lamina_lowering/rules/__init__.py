"""Lowering rules, one module per family of primitives; importing this package fills the tables."""
from . import (callbacks, calls, collectives, control, cumulative, custom, elementwise, factorizations, fft, indexing, maps,
               products, random_bits, random_keys, reductions, shape, solves, sorting, special, top_k, windows)

__all__ = ["callbacks", "calls", "collectives", "control", "cumulative", "custom", "elementwise", "factorizations", "fft",
           "indexing", "maps", "products", "random_bits", "random_keys", "reductions", "shape", "solves", "sorting", "special",
           "top_k", "windows"]
