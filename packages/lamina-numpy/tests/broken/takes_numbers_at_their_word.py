"""A Python number has a type of its own."""
import numpy as np
from lamina_numpy import stock
from lamina_numpy.stock import *

__contract__ = 1

_TYPES = {int: np.int32, float: np.float32, complex: np.complex64}


def multiply(x, y, /):
    return stock.multiply(*[stock.asarray(v, _TYPES[type(v)]) if type(v) in _TYPES else v for v in (x, y)])
