"""`lamina.tree_util`: trees of containers, from `lamina_ir.trees`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_ir.trees import *
from lamina_ir.trees import __all__ as __all__

_explain_absent_names(globals())
