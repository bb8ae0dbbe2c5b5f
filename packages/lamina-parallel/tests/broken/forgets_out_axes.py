"""The mapped axis stands first in every result."""
from lamina_parallel import stock
from lamina_parallel.stock import *

__contract__ = 1


def pmap(fun=None, axis_name=None, *, out_axes=0, **options):
    return stock.pmap(fun, axis_name, **options)
