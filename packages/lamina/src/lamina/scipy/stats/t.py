"""`lamina.scipy.stats.t`, from `lamina_scipy.stats.t`."""
from ... import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.t import *
from lamina_scipy.stats.t import __all__ as __all__
