"""`lamina.scipy.ndimage`: images between their elements, from `lamina_scipy.ndimage`."""
from lamina_scipy.ndimage import *
from lamina_scipy.ndimage import __all__ as __all__
