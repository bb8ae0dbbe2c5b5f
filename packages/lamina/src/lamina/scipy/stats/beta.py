"""`lamina.scipy.stats.beta`, from `lamina_scipy.stats.beta`."""
from lamina_scipy.stats.beta import *
from lamina_scipy.stats.beta import __all__ as __all__
