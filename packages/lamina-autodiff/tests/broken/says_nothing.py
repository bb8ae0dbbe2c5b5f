"""Defect: a result that is not a scalar is summed instead of rejected."""
from lamina_autodiff import _default
from lamina_autodiff._default import *
from lamina_tracing import lax

__contract__ = 1


def grad(fun, argnums=0, has_aux=False, **options):
    def summed(*args, **kwargs):
        out = fun(*args, **kwargs)
        shape = getattr(out, "shape", ())
        return lax.reduce_sum(out, tuple(range(len(shape)))) if shape and not has_aux else out
    return _default.grad(summed if callable(fun) else fun, argnums, has_aux=has_aux, **options)
