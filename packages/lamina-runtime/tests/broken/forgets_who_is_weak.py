"""Defect: `device_put` makes Python scalars strongly typed."""
import numpy as np
from lamina_ir import trees
from lamina_runtime import _default
from lamina_runtime._default import *

__contract__ = 1


def device_put(x, device=None, **options):
    strong = {int: np.int32, float: np.float32, complex: np.complex64}
    return _default.device_put(trees.tree_map(lambda a: strong[type(a)](a) if type(a) in strong else a, x), device, **options)
