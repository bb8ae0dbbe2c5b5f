"""`lamina.scipy.stats.beta`, from `lamina_scipy.stats.beta`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.beta import *
from lamina_scipy.stats.beta import __all__ as __all__
