"""The lowering rows, one module per family of ops; importing this package fills the table."""
from . import calls, collectives, elementwise, indexing, linalg, random_bits, reductions, shape, sorting  # noqa: F401
