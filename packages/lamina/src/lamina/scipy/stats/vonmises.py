"""`lamina.scipy.stats.vonmises`, from `lamina_scipy.stats.vonmises`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.vonmises import *
from lamina_scipy.stats.vonmises import __all__ as __all__
