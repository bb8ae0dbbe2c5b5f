"""`lamina.random`: the functions of `lamina_random`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_random import *
from lamina_random import __all__ as __all__

_explain_absent_names(globals())
