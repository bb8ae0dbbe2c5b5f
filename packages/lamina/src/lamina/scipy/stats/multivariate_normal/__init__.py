"""`lamina.scipy.stats.multivariate_normal`, from `lamina_scipy.stats.multivariate_normal`."""
from .... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.multivariate_normal import *
from lamina_scipy.stats.multivariate_normal import __all__ as __all__
