"""`lamina.scipy.stats.uniform`, from `lamina_scipy.stats.uniform`."""
from lamina_scipy.stats.uniform import *
from lamina_scipy.stats.uniform import __all__ as __all__
