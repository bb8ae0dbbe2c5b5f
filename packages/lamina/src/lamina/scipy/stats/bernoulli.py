"""`lamina.scipy.stats.bernoulli`, from `lamina_scipy.stats.bernoulli`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.bernoulli import *
from lamina_scipy.stats.bernoulli import __all__ as __all__
