"""`lamina.scipy.stats.geom`, from `lamina_scipy.stats.geom`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.geom import *
from lamina_scipy.stats.geom import __all__ as __all__
