"""Defect: arguments with too many members are truncated silently."""
import numpy as np
from lamina_ir import trees
from lamina_parallel import _default
from lamina_parallel._default import *

__contract__ = 1


def pmap(fun=None, axis_name=None, *, in_axes=0, **options):
    mapped = _default.pmap(fun, axis_name, in_axes=in_axes, **options)

    def run(*args, **kwargs):
        if in_axes == 0 and len(args) > 1 and all(isinstance(a, np.ndarray) and a.ndim for a in args):
            rows = min(len(a) for a in args)
            args = trees.tree_map(lambda a: a[:rows], args)
        return mapped(*args, **kwargs)
    return run if fun is not None else mapped
