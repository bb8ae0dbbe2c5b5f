"""`lamina.scipy.interpolate`: interpolation on grids, from `lamina_scipy.interpolate`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.interpolate import *
from lamina_scipy.interpolate import __all__ as __all__
