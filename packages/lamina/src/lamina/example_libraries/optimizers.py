"""`lamina.example_libraries.optimizers`: gradient descent of many kinds, from `lamina_nn.optimizers`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_nn.optimizers import *
from lamina_nn.optimizers import __all__ as __all__

_explain_absent_names(globals())
