"""`lamina.extend.random`: generators of random numbers, from `lamina_random.extend`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_random.extend import *
from lamina_random.extend import __all__ as __all__
