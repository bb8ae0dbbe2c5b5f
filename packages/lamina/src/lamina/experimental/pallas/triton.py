"""`lamina.experimental.pallas.triton`: masked reads and writes, from `lamina_pallas.triton`."""
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_pallas.triton import *
from lamina_pallas.triton import __all__ as __all__

_explain_absent_names(globals())
