"""`lamina.scipy.ndimage`: images between their elements, from `lamina_scipy.ndimage`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.ndimage import *
from lamina_scipy.ndimage import __all__ as __all__
