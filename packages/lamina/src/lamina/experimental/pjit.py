"""`lamina.experimental.pjit`: `jit` under the name it had for programs over meshes, from `lamina_runtime.pjit`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_runtime.pjit import *
from lamina_runtime.pjit import __all__ as __all__

_explain_absent_names(globals())
