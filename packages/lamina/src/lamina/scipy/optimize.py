"""`lamina.scipy.optimize`: minima, from `lamina_scipy.optimize`."""
from lamina_scipy.optimize import *
from lamina_scipy.optimize import __all__ as __all__
