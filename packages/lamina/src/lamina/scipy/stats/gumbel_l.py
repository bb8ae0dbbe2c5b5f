"""`lamina.scipy.stats.gumbel_l`, from `lamina_scipy.stats.gumbel_l`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.gumbel_l import *
from lamina_scipy.stats.gumbel_l import __all__ as __all__
