"""`lamina.scipy.stats.logistic`, from `lamina_scipy.stats.logistic`."""
from ... import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.logistic import *
from lamina_scipy.stats.logistic import __all__ as __all__
