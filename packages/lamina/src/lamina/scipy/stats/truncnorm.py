"""`lamina.scipy.stats.truncnorm`, from `lamina_scipy.stats.truncnorm`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.truncnorm import *
from lamina_scipy.stats.truncnorm import __all__ as __all__
