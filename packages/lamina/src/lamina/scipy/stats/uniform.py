"""`lamina.scipy.stats.uniform`, from `lamina_scipy.stats.uniform`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.uniform import *
from lamina_scipy.stats.uniform import __all__ as __all__
