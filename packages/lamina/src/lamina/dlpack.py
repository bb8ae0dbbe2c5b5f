"""`lamina.dlpack`: arrays from other libraries and for them, from `lamina_runtime.dlpack`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_runtime.dlpack import *
from lamina_runtime.dlpack import __all__ as __all__

_explain_absent_names(globals())
