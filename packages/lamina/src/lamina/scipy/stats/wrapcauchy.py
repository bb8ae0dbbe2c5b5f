"""`lamina.scipy.stats.wrapcauchy`, from `lamina_scipy.stats.wrapcauchy`."""
from lamina_scipy.stats.wrapcauchy import *
from lamina_scipy.stats.wrapcauchy import __all__ as __all__
