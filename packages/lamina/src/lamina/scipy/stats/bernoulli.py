"""`lamina.scipy.stats.bernoulli`, from `lamina_scipy.stats.bernoulli`."""
from ... import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.bernoulli import *
from lamina_scipy.stats.bernoulli import __all__ as __all__
