"""`lamina.ref`: mutable references to arrays, from `lamina_refs`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_refs import *
from lamina_refs import __all__ as __all__
from lamina_ir.layers import explain_absent_names as _explain_absent_names

_explain_absent_names(globals())
