"""`lamina.scipy.stats.chi2`, from `lamina_scipy.stats.chi2`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.chi2 import *
from lamina_scipy.stats.chi2 import __all__ as __all__
