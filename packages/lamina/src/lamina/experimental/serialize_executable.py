"""`lamina.experimental.serialize_executable`: compiled calls as bytes, from `lamina_runtime.serialize_executable`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_runtime.serialize_executable import *
from lamina_runtime.serialize_executable import __all__ as __all__

_explain_absent_names(globals())
