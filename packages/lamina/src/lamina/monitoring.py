"""`lamina.monitoring`: events for programs that watch lamina, from `lamina_ir.monitoring`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_ir.monitoring import *
from lamina_ir.monitoring import __all__ as __all__

_explain_absent_names(globals())
