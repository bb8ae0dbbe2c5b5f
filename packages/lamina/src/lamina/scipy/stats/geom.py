"""`lamina.scipy.stats.geom`, from `lamina_scipy.stats.geom`."""
from lamina_scipy.stats.geom import *
from lamina_scipy.stats.geom import __all__ as __all__
