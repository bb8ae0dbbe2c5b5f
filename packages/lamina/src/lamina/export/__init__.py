"""`lamina.export`: functions traced once, as files that run without their Python code, from `lamina_export`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_export import *
from lamina_export import __all__ as __all__
from lamina_ir.layers import explain_absent_names as _explain_absent_names

_explain_absent_names(globals())
