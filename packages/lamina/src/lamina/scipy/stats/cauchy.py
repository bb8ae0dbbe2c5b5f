"""`lamina.scipy.stats.cauchy`, from `lamina_scipy.stats.cauchy`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.cauchy import *
from lamina_scipy.stats.cauchy import __all__ as __all__
