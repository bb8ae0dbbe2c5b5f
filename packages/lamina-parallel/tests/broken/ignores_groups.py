"""Defect: `psum` ignores axis_index_groups."""
from lamina_parallel import _default
from lamina_parallel._default import *

__contract__ = 1


def psum(x, axis_name, *, axis_index_groups=None):
    return _default.psum(x, axis_name)
