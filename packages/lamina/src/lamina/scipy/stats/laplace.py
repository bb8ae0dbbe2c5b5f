"""`lamina.scipy.stats.laplace`, from `lamina_scipy.stats.laplace`."""
from lamina_scipy.stats.laplace import *
from lamina_scipy.stats.laplace import __all__ as __all__
