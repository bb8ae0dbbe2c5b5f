"""`pmean` does not divide."""
from lamina_parallel import stock
from lamina_parallel.stock import *

__contract__ = 1


def pmean(x, axis_name, *, axis_index_groups=None):
    return stock.psum(x, axis_name, axis_index_groups=axis_index_groups)
