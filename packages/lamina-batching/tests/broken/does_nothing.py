"""An implementation with all names, none of which does anything."""
from lamina_batching import _default
from lamina_batching._default import *

__contract__ = 1


def absent(*args, **kwargs):
    raise NotImplementedError("does nothing")


globals().update({name: absent for name in _default.__all__ if callable(getattr(_default, name))})
