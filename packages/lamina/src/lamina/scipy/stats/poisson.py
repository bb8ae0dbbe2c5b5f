"""`lamina.scipy.stats.poisson`, from `lamina_scipy.stats.poisson`."""
from lamina_scipy.stats.poisson import *
from lamina_scipy.stats.poisson import __all__ as __all__
