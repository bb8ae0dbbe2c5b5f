"""Defect: `switch` counts branches from the end for a negative index."""
from types import ModuleType

from lamina_tracing import _default
from lamina_tracing._default import *

__contract__ = 1

lax = ModuleType("lax")
vars(lax).update(vars(_default.lax))
lax.switch = lambda index, branches, *operands: _default.lax.switch(
    _default.lax.select(_default.lax.lt(index, 0), _default.lax.add(index, len(branches)), index), branches, *operands)
