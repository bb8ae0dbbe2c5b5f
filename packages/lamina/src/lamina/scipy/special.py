"""`lamina.scipy.special`: special functions, from `lamina_scipy.special`."""
from .. import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.special import *
from lamina_scipy.special import __all__ as __all__
