"""The typed functions people and rules call: one per primitive, and what is written with them."""
from . import calls, collectives, elementwise, indexing, linalg, random_bits, reductions, shape, sorting
from .calls import *
from .collectives import *
from .elementwise import *
from .indexing import *
from .linalg import *
from .random_bits import *
from .reductions import *
from .shape import *
from .sorting import *

__all__ = [name for family in (elementwise, shape, reductions, linalg, indexing, sorting, random_bits, calls,
                               collectives) for name in family.__all__]
