"""Defect: a process can join a group once only."""
from lamina_distributed import _default
from lamina_distributed._default import *

__contract__ = 1

_joined = []


def initialize(*args, **kwargs):
    if _joined:
        raise RuntimeError("initialize was called before; start the process again")
    _default.initialize(*args, **kwargs)
    _joined.append(True)
