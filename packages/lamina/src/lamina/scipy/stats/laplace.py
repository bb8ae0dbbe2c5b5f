"""`lamina.scipy.stats.laplace`, from `lamina_scipy.stats.laplace`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.laplace import *
from lamina_scipy.stats.laplace import __all__ as __all__
