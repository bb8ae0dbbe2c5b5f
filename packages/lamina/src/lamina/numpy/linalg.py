"""`lamina.numpy.linalg`: linear algebra, from `lamina_numpy.linalg`."""
from lamina_numpy.linalg import *
from lamina_numpy.linalg import __all__ as __all__
