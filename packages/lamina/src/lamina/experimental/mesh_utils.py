"""`lamina.experimental.mesh_utils`: devices in grids, from `lamina_runtime.mesh_utils`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_runtime.mesh_utils import *
from lamina_runtime.mesh_utils import __all__ as __all__

_explain_absent_names(globals())
