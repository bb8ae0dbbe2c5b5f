"""`lamina.scipy.stats.geom`, from `lamina_scipy.stats.geom`."""
from ... import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.geom import *
from lamina_scipy.stats.geom import __all__ as __all__
