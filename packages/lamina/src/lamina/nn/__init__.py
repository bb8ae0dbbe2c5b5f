"""`lamina.nn`: what networks are made of, from `lamina_nn`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from importlib import import_module as _import_module

from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_nn import *
from lamina_nn import __all__ as __all__

initializers = _import_module(f"{__name__}.initializers")  # that of this path, not the one that the star brought

_explain_absent_names(globals())
