"""`lamina.replay`: files of failing calls, and comparison with NumPy, from `lamina_see.replay`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_see.replay import *
from lamina_see.replay import __all__ as __all__

_explain_absent_names(globals())
