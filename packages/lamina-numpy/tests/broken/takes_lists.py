"""Lists are arrays too."""
from lamina_numpy import stock
from lamina_numpy.stock import *

__contract__ = 1


def sum(a, *args, **options):
    return stock.sum(stock.asarray(a), *args, **options)
