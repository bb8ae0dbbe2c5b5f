"""`lamina.scipy.stats.cauchy`, from `lamina_scipy.stats.cauchy`."""
from lamina_scipy.stats.cauchy import *
from lamina_scipy.stats.cauchy import __all__ as __all__
