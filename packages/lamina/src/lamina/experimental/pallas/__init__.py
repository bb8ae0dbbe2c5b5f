"""`lamina.experimental.pallas`: kernels on blocks of arrays, from `lamina_pallas`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from importlib import import_module as _import_module

from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_pallas import *
from lamina_pallas import __all__ as __all__

# Those of this path, not the ones that the star brought.
tpu = _import_module(f"{__name__}.tpu")
triton = _import_module(f"{__name__}.triton")

_explain_absent_names(globals())
