"""`lamina.scipy.stats.nbinom`, from `lamina_scipy.stats.nbinom`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.nbinom import *
from lamina_scipy.stats.nbinom import __all__ as __all__
