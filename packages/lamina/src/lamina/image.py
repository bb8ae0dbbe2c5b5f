"""`lamina.image`: pictures of another size, from `lamina_numpy.image`."""
from lamina_numpy.image import *
from lamina_numpy.image import __all__ as __all__
