"""Defect: a gradient is a constant if it is differentiated again."""
from lamina_autodiff import _default
from lamina_autodiff._default import *
from lamina_ir import dtypes, trees
from lamina_tracing import lax
from lamina_tracing.extend import typeof

__contract__ = 1


def grad(fun, *args, **options):
    inner = _default.grad(fun, *args, **options)
    return lambda *xs, **kw: trees.tree_map(lambda g: lax.stop_gradient(g) if dtypes.is_inexact(typeof(g).dtype) else g,
                                            inner(*xs, **kw))
