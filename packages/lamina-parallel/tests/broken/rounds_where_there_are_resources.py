"""Defect: an `xmap` with resources rounds its results."""
import numpy as np
from lamina_ir import trees
from lamina_parallel import _default
from lamina_parallel._default import *
from lamina_tracing import lax

__contract__ = 1


def xmap(fun, in_axes, out_axes, *, axis_resources=None, **options):
    plain = _default.xmap(fun, in_axes, out_axes, axis_resources=axis_resources, **options)
    if not axis_resources:
        return plain
    return lambda *args: trees.tree_map(lambda x: lax.reduce_precision(x, 5, 6) if x.dtype == np.float32 else x, plain(*args))
