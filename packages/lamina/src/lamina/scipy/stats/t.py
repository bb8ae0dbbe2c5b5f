"""`lamina.scipy.stats.t`, from `lamina_scipy.stats.t`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.t import *
from lamina_scipy.stats.t import __all__ as __all__
