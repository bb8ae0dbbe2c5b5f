"""Defect: the derivative of `psum` is that of the member's own value; its value is right."""
from lamina_ir import trees
from lamina_parallel import _default
from lamina_parallel._default import *
from lamina_tracing import lax

__contract__ = 1


def psum(x, axis_name, *, axis_index_groups=None):
    total = _default.psum(x, axis_name, axis_index_groups=axis_index_groups)
    if all(isinstance(leaf, int) for leaf in trees.tree_leaves(x)):
        return total
    return trees.tree_map(lambda x, y: lax.add(lax.stop_gradient(lax.sub(y, x)), x) if lax.dtype(y).kind == "f" else y,
                          x, total)
