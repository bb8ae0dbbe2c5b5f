"""Reduced axes go, whatever `keepdims` says."""
from lamina_numpy import _default
from lamina_numpy._default import *

__contract__ = 1


def sum(a, axis=None, dtype=None, out=None, keepdims=False, **options):
    return _default.sum(a, axis, dtype, out, **options)
