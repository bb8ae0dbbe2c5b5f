"""`lamina.scipy.stats.multivariate_normal`, from `lamina_scipy.stats.multivariate_normal`."""
from ... import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.multivariate_normal import *
from lamina_scipy.stats.multivariate_normal import __all__ as __all__
