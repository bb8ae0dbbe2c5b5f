"""`lamina.scipy.stats.norm`, from `lamina_scipy.stats.norm`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.norm import *
from lamina_scipy.stats.norm import __all__ as __all__
