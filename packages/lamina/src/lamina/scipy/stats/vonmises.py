"""`lamina.scipy.stats.vonmises`, from `lamina_scipy.stats.vonmises`."""
from lamina_scipy.stats.vonmises import *
from lamina_scipy.stats.vonmises import __all__ as __all__
