"""`lamina.scipy.stats.gamma`, from `lamina_scipy.stats.gamma`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.gamma import *
from lamina_scipy.stats.gamma import __all__ as __all__
