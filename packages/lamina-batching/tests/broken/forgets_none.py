"""Defect: an argument with in_axes None is mapped if its size allows."""
import numpy as np
from lamina_batching import _default
from lamina_batching._default import *

__contract__ = 1


def vmap(fun, in_axes=0, out_axes=0, **options):
    def mapped(*args, **kwargs):
        axes = in_axes
        if isinstance(in_axes, tuple):
            sizes = {np.shape(x)[a] for x, a in zip(args, in_axes) if isinstance(a, int) and np.ndim(x)}
            axes = tuple(0 if a is None and np.shape(x)[:1] and np.shape(x)[0] in sizes else a for x, a in zip(args, in_axes))
        return _default.vmap(fun, axes, out_axes, **options)(*args, **kwargs)
    return mapped
