"""`lamina.scipy.stats.dirichlet`, from `lamina_scipy.stats.dirichlet`."""
from .... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.dirichlet import *
from lamina_scipy.stats.dirichlet import __all__ as __all__
