"""Defect: with out_axes None, a result that differs between examples is returned once instead of rejected."""
from lamina_batching import _default
from lamina_batching._default import *
from lamina_tracing import lax

__contract__ = 1


def vmap(fun, in_axes=0, out_axes=0, **options):
    if out_axes is not None:
        return _default.vmap(fun, in_axes, out_axes, **options)

    def mapped(*args, **kwargs):
        return lax.index_in_dim(_default.vmap(fun, in_axes, 0, **options)(*args, **kwargs), 0, 0, False)
    return mapped
