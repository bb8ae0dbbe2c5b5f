"""A Python number has a type of its own."""
import numpy as np
from lamina_numpy import _default
from lamina_numpy._default import *

__contract__ = 1

_TYPES = {int: np.int32, float: np.float32, complex: np.complex64}


def multiply(x, y, /):
    return _default.multiply(*[_default.asarray(v, _TYPES[type(v)]) if type(v) in _TYPES else v for v in (x, y)])
