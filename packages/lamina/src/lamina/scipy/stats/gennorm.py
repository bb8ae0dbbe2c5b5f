"""`lamina.scipy.stats.gennorm`, from `lamina_scipy.stats.gennorm`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.gennorm import *
from lamina_scipy.stats.gennorm import __all__ as __all__
