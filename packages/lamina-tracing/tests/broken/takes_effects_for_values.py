"""Defect: a host function is called once, during tracing."""
import numpy as np
from lamina_ir import trees
from lamina_tracing._default import *

__contract__ = 1


def io_callback(callback, result_shape_dtypes, *args, ordered=False):
    callback(*[np.zeros(np.shape(a), getattr(a, "dtype", np.int32)) for a in args])
    return trees.tree_map(lambda s: np.zeros(s.shape, s.dtype), result_shape_dtypes)
