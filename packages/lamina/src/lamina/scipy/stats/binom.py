"""`lamina.scipy.stats.binom`, from `lamina_scipy.stats.binom`."""
from ... import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.binom import *
from lamina_scipy.stats.binom import __all__ as __all__
