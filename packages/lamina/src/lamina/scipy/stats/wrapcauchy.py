"""`lamina.scipy.stats.wrapcauchy`, from `lamina_scipy.stats.wrapcauchy`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.wrapcauchy import *
from lamina_scipy.stats.wrapcauchy import __all__ as __all__
