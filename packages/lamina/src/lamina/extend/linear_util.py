"""`lamina.extend.linear_util`: functions with transformations around them, from `lamina_tracing.linear_util`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_tracing.linear_util import *
from lamina_tracing.linear_util import __all__ as __all__

_explain_absent_names(globals())
