"""`lamina.scipy.linalg`: matrices, from `lamina_scipy.linalg`."""
from lamina_scipy.linalg import *
from lamina_scipy.linalg import __all__ as __all__
