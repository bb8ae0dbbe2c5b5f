"""All names are there, and none does anything."""
from lamina_numpy import stock
from lamina_numpy.stock import *

__contract__ = 1


def absent(*args, **kwargs):
    raise NotImplementedError("does nothing")


linalg = fft = None
globals().update({name: absent for name in stock.__all__ if callable(getattr(stock, name))})
