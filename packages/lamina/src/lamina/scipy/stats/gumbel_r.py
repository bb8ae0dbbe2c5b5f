"""`lamina.scipy.stats.gumbel_r`, from `lamina_scipy.stats.gumbel_r`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.gumbel_r import *
from lamina_scipy.stats.gumbel_r import __all__ as __all__
