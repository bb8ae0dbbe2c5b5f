"""Defect: an inner derivative confuses the outer tangent with its own."""
from lamina_autodiff import _default
from lamina_autodiff._default import *
from lamina_tracing import lax

__contract__ = 1

_around = []


def grad(fun, argnums=0, **options):
    def noted(x, *args, **kwargs):
        _around.append(x)
        try:
            return fun(x, *args, **kwargs)
        finally:
            _around.pop()

    def gradient(*args, **kwargs):
        result = _default.grad(noted if argnums == 0 else fun, argnums, **options)(*args, **kwargs)
        if not _around or getattr(result, "shape", None) != () or _around[0].shape != ():
            return result
        return lax.add(result, lax.sub(_around[0], lax.stop_gradient(_around[0])))
    return gradient
