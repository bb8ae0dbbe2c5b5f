"""`lamina.experimental.mesh_utils`: devices in grids, from `lamina_runtime.mesh_utils`."""
from lamina_runtime.mesh_utils import *
from lamina_runtime.mesh_utils import __all__ as __all__
