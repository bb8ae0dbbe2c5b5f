"""Correct but slow: the function runs once per example. All conformance tests pass except those of cost."""
import numpy as np
from lamina_batching import _default
from lamina_batching._default import *
from lamina_ir import trees
from lamina_tracing import lax

__contract__ = 1


def vmap(fun, in_axes=0, out_axes=0, **options):
    inner = _default.vmap(fun, in_axes, out_axes, **options)

    def mapped(*args, **kwargs):
        if options or in_axes != 0 or out_axes != 0 or kwargs or not all(np.ndim(x) for x in trees.tree_leaves(args)):
            return inner(*args, **kwargs)
        size, = {np.shape(x)[0] for x in trees.tree_leaves(args)}
        rows = [fun(*trees.tree_map(lambda x, i=i: lax.index_in_dim(x, i, 0, False), args)) for i in range(size)]
        return trees.tree_map(lambda *xs: lax.concatenate([lax.expand_dims(x, (0,)) for x in xs], 0), *rows)
    return mapped
