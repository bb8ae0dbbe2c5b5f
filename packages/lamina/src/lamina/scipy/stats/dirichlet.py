"""`lamina.scipy.stats.dirichlet`, from `lamina_scipy.stats.dirichlet`."""
from lamina_scipy.stats.dirichlet import *
from lamina_scipy.stats.dirichlet import __all__ as __all__
