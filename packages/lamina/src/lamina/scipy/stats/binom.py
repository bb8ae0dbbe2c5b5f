"""`lamina.scipy.stats.binom`, from `lamina_scipy.stats.binom`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.binom import *
from lamina_scipy.stats.binom import __all__ as __all__
