"""`lamina.scipy.stats.pareto`, from `lamina_scipy.stats.pareto`."""
from lamina_scipy.stats.pareto import *
from lamina_scipy.stats.pareto import __all__ as __all__
