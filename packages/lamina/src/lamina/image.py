"""`lamina.image`: pictures of another size, from `lamina_numpy.image`."""
from . import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_numpy.image import *
from lamina_numpy.image import __all__ as __all__
