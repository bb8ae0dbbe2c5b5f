"""Defect: a jitted function returns the results of its first call for all arguments of the same types."""
import numpy as np
from lamina_ir import trees
from lamina_tracing import _default
from lamina_tracing._default import *

__contract__ = 1


def jit(fun, **options):
    inner, known = _default.jit(fun, **options), {}

    def called(*args, **kwargs):
        leaves, tree = trees.tree_flatten((args, kwargs))
        key = str(tree), tuple((np.shape(x), str(getattr(x, "dtype", x))) for x in leaves)
        if key not in known:
            known[key] = inner(*args, **kwargs)
        return known[key]
    return called
