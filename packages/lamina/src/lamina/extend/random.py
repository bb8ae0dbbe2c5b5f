"""`lamina.extend.random`: generators of random numbers, from `lamina_random.extend`."""
from lamina_random.extend import *
from lamina_random.extend import __all__ as __all__
