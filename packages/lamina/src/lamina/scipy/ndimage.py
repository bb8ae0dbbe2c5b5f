"""`lamina.scipy.ndimage`: images between their elements, from `lamina_scipy.ndimage`."""
from .. import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.ndimage import *
from lamina_scipy.ndimage import __all__ as __all__
