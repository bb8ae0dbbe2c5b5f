"""`lamina.scipy.stats.logistic`, from `lamina_scipy.stats.logistic`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.logistic import *
from lamina_scipy.stats.logistic import __all__ as __all__
