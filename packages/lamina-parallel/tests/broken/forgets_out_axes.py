"""Defect: the mapped axis is the first one of every result."""
from lamina_parallel import _default
from lamina_parallel._default import *

__contract__ = 1


def pmap(fun=None, axis_name=None, *, out_axes=0, **options):
    return _default.pmap(fun, axis_name, **options)
