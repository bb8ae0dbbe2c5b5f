"""`lamina.scipy.stats.logistic`, from `lamina_scipy.stats.logistic`."""
from lamina_scipy.stats.logistic import *
from lamina_scipy.stats.logistic import __all__ as __all__
