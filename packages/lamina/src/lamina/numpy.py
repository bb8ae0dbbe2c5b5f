"""`lamina.numpy`: the functions of `lamina_numpy`."""
from lamina_numpy import *
from lamina_numpy import __all__ as __all__
