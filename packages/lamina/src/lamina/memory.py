"""`lamina.memory`: kinds of memory, from `lamina_runtime.memory`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_runtime.memory import *
from lamina_runtime.memory import __all__ as __all__

_explain_absent_names(globals())
