"""`lamina.scipy.stats.betabinom`, from `lamina_scipy.stats.betabinom`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.betabinom import *
from lamina_scipy.stats.betabinom import __all__ as __all__
