"""One module per family; importing the package fills the table."""
from . import calls, collectives, elementwise, indexing, linalg, random_bits, reductions, shape, sorting

__all__ = ["calls", "collectives", "elementwise", "indexing", "linalg", "random_bits", "reductions", "shape", "sorting"]
