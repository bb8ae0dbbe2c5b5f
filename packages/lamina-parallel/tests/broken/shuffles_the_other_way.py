"""Defect: `pshuffle` applies the inverse permutation."""
import numpy as np
from lamina_parallel import _default
from lamina_parallel._default import *

__contract__ = 1


def pshuffle(x, axis_name, perm):
    return _default.pshuffle(x, axis_name, np.argsort(perm).tolist())
