"""`lamina.scipy.stats.bernoulli`, from `lamina_scipy.stats.bernoulli`."""
from lamina_scipy.stats.bernoulli import *
from lamina_scipy.stats.bernoulli import __all__ as __all__
