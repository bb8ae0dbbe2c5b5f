"""`lamina.experimental.mesh_utils`: devices in grids, from `lamina_runtime.mesh_utils`."""
from .. import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_runtime.mesh_utils import *
from lamina_runtime.mesh_utils import __all__ as __all__
