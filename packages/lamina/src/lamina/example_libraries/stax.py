"""`lamina.example_libraries.stax`: small networks out of layers, from `lamina_nn.stax`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_nn.stax import *
from lamina_nn.stax import __all__ as __all__

_explain_absent_names(globals())
