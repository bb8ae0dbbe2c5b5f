"""What the first example gives is given for all of them."""
from lamina_batching import stock
from lamina_batching.stock import *
from lamina_ir import trees
from lamina_tracing import lax

__contract__ = 1


def vmap(fun, in_axes=0, out_axes=0, **options):
    inner = stock.vmap(fun, in_axes, 0, **options)

    def mapped(*args, **kwargs):
        out = inner(*args, **kwargs)
        return trees.tree_map(lambda x: lax.broadcast_in_dim(lax.index_in_dim(x, 0, 0, False), x.shape, tuple(range(1, x.ndim))),
                              out)
    return mapped
