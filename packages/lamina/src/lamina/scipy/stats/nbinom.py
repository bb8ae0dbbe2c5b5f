"""`lamina.scipy.stats.nbinom`, from `lamina_scipy.stats.nbinom`."""
from lamina_scipy.stats.nbinom import *
from lamina_scipy.stats.nbinom import __all__ as __all__
