"""`lamina.experimental.multihost_utils`: what several processes do together, from `lamina_distributed.multihost_utils`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_distributed.multihost_utils import *
from lamina_distributed.multihost_utils import __all__ as __all__

_explain_absent_names(globals())
