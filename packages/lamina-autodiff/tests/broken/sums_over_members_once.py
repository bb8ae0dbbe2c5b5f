"""Defect: the transpose of `psum` is the identity; each member keeps its own cotangent."""
from lamina_autodiff.extend import transpose_rules
from lamina_autodiff._default import *
from lamina_ir import prims

__contract__ = 1

transpose_rules.define(prims.psum_p, lambda cts, *operands, axes, axis_index_groups: list(cts))
