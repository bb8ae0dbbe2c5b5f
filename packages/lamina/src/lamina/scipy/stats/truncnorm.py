"""`lamina.scipy.stats.truncnorm`, from `lamina_scipy.stats.truncnorm`."""
from lamina_scipy.stats.truncnorm import *
from lamina_scipy.stats.truncnorm import __all__ as __all__
