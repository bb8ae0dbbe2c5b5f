"""`lamina.numpy.linalg`: linear algebra, from `lamina_numpy.linalg`."""
from .. import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_numpy.linalg import *
from lamina_numpy.linalg import __all__ as __all__
