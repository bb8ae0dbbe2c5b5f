"""`lamina.experimental.checkify`: checks whose errors are values, from `lamina_checkify`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_checkify import *
from lamina_checkify import __all__ as __all__
from lamina_ir.layers import explain_absent_names as _explain_absent_names

_explain_absent_names(globals())
