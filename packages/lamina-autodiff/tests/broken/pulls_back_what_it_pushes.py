"""Defect: VJP applies a square matrix instead of its transpose."""
import numpy as np
from lamina_autodiff import _default
from lamina_autodiff._default import *

__contract__ = 1


def vjp(fun, *primals, **options):
    if len(primals) != 1 or options or not isinstance(primals[0], np.ndarray) or primals[0].dtype != np.float32:
        return _default.vjp(fun, *primals, **options)
    out, pull = _default.vjp(fun, *primals)
    if getattr(out, "shape", None) != primals[0].shape:
        return out, pull
    return out, lambda ct: (_default.jvp(fun, primals, (ct,))[1],)
