"""`lamina.scipy.stats.chi2`, from `lamina_scipy.stats.chi2`."""
from ... import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.chi2 import *
from lamina_scipy.stats.chi2 import __all__ as __all__
