"""`lamina.scipy.interpolate`: interpolation on grids, from `lamina_scipy.interpolate`."""
from lamina_scipy.interpolate import *
from lamina_scipy.interpolate import __all__ as __all__
