"""Defect: `device_put` makes 32-bit arrays also if x64 is enabled."""
import numpy as np
from lamina_ir import config, trees
from lamina_runtime import _default
from lamina_runtime._default import *

__contract__ = 1


def device_put(x, device=None, **options):
    with config.enable_x64(False):
        return _default.device_put(trees.tree_map(lambda a: np.asarray(a, np.float32) if isinstance(a, np.ndarray)
                                               and a.dtype == np.float64 else a, x), device, **options)
