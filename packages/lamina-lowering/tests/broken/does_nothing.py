"""Defect: every public function raises NotImplementedError."""
from lamina_lowering import _default
from lamina_lowering._default import *

__contract__ = 1


def absent(*args, **kwargs):
    raise NotImplementedError("does nothing")


globals().update({name: absent for name in _default.__all__ if callable(getattr(_default, name))})
