"""Defect: `scan` ignores `reverse`."""
from types import ModuleType

from lamina_tracing import _default
from lamina_tracing._default import *

__contract__ = 1

lax = ModuleType("lax")
vars(lax).update(vars(_default.lax))
lax.scan = lambda *args, reverse=False, **options: _default.lax.scan(*args, **options)
