"""`lamina.scipy.stats.expon`, from `lamina_scipy.stats.expon`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.expon import *
from lamina_scipy.stats.expon import __all__ as __all__
