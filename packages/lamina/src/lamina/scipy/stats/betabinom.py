"""`lamina.scipy.stats.betabinom`, from `lamina_scipy.stats.betabinom`."""
from lamina_scipy.stats.betabinom import *
from lamina_scipy.stats.betabinom import __all__ as __all__
