"""The remainder has the sign of the dividend."""
from lamina_numpy import stock
from lamina_numpy.stock import *

__contract__ = 1

remainder = stock.fmod
