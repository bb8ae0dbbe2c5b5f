"""`lamina.scipy.stats.dirichlet`, from `lamina_scipy.stats.dirichlet`."""
from ... import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.dirichlet import *
from lamina_scipy.stats.dirichlet import __all__ as __all__
