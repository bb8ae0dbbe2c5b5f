"""`lamina.scipy.stats.expon`, from `lamina_scipy.stats.expon`."""
from lamina_scipy.stats.expon import *
from lamina_scipy.stats.expon import __all__ as __all__
