"""All names are there, and none does anything."""
from lamina_lowering import stock
from lamina_lowering.stock import *

__contract__ = 1


def absent(*args, **kwargs):
    raise NotImplementedError("does nothing")


globals().update({name: absent for name in stock.__all__ if callable(getattr(stock, name))})
