"""Defect: a `psum` with groups sums over the whole axis."""
from lamina_ir import prims
from lamina_lowering._default import *

__contract__ = 1

_psum = lowering_rules[prims.psum_p]


def _lower_psum(ctx, *args, axes, axis_index_groups):
    return _psum(ctx, *args, axes=axes, axis_index_groups=None)


lowering_rules.define(prims.psum_p, _lower_psum)
