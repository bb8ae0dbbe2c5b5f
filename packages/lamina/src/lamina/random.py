"""`lamina.random`: the functions of `lamina_random`."""
from lamina_random import *
from lamina_random import __all__ as __all__
