"""Defect: the axis name is not bound inside the map."""
from lamina_batching import _default
from lamina_batching._default import *

__contract__ = 1


def vmap(fun, in_axes=0, out_axes=0, axis_name=None, **options):
    return _default.vmap(fun, in_axes, out_axes, **options)
