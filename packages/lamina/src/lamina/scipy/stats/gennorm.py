"""`lamina.scipy.stats.gennorm`, from `lamina_scipy.stats.gennorm`."""
from lamina_scipy.stats.gennorm import *
from lamina_scipy.stats.gennorm import __all__ as __all__
