"""Defect: the gradient of a real function of complex numbers is u_x + i u_y."""
import numpy as np
from lamina_autodiff import _default
from lamina_autodiff._default import *
from lamina_tracing import lax

__contract__ = 1


def grad(fun, *args, **options):
    def gradient(*xs, **kw):
        g = _default.grad(fun, *args, **options)(*xs, **kw)
        return lax.conj(g) if getattr(g, "dtype", None) == np.complex64 and not options.get("holomorphic") else g
    return gradient
