"""Reduced axes go, whatever `keepdims` says."""
from lamina_numpy import stock
from lamina_numpy.stock import *

__contract__ = 1


def sum(a, axis=None, dtype=None, out=None, keepdims=False, **options):
    return stock.sum(a, axis, dtype, out, **options)
