"""`lamina.experimental.pallas.tpu`: kinds of memory, from `lamina_pallas.tpu`."""
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_pallas.tpu import *
from lamina_pallas.tpu import __all__ as __all__

_explain_absent_names(globals())
