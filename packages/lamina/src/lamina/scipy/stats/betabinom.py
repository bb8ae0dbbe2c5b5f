"""`lamina.scipy.stats.betabinom`, from `lamina_scipy.stats.betabinom`."""
from ... import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.betabinom import *
from lamina_scipy.stats.betabinom import __all__ as __all__
