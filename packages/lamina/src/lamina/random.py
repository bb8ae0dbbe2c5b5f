"""`lamina.random`: the functions of `lamina_random`."""
from . import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_random import *
from lamina_random import __all__ as __all__
