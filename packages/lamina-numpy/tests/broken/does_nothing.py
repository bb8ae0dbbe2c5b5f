"""All names are there, and none does anything."""
from lamina_numpy import _default
from lamina_numpy._default import *

__contract__ = 1


def absent(*args, **kwargs):
    raise NotImplementedError("does nothing")


linalg = fft = None
globals().update({name: absent for name in _default.__all__ if callable(getattr(_default, name))})
