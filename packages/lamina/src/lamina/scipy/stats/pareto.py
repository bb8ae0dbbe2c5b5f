"""`lamina.scipy.stats.pareto`, from `lamina_scipy.stats.pareto`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.pareto import *
from lamina_scipy.stats.pareto import __all__ as __all__
