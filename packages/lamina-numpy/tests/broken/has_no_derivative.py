"""The derivative of `cumsum` is zero; its values are right."""
from lamina_numpy import _default
from lamina_numpy._default import *
from lamina_tracing import lax

__contract__ = 1


def cumsum(a, axis=None, dtype=None, out=None):
    return lax.stop_gradient(_default.cumsum(a, axis, dtype, out))
