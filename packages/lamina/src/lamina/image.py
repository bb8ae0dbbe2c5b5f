"""`lamina.image`: pictures of another size, from `lamina_numpy.image`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_numpy.image import *
from lamina_numpy.image import __all__ as __all__
