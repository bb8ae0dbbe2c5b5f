"""`lamina.scipy.stats.binom`, from `lamina_scipy.stats.binom`."""
from lamina_scipy.stats.binom import *
from lamina_scipy.stats.binom import __all__ as __all__
