"""`lamina.scipy.stats.gamma`, from `lamina_scipy.stats.gamma`."""
from lamina_scipy.stats.gamma import *
from lamina_scipy.stats.gamma import __all__ as __all__
