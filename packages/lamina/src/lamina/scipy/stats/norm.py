"""`lamina.scipy.stats.norm`, from `lamina_scipy.stats.norm`."""
from lamina_scipy.stats.norm import *
from lamina_scipy.stats.norm import __all__ as __all__
