"""`lamina.scipy.special`: special functions, from `lamina_scipy.special`."""
from lamina_scipy.special import *
from lamina_scipy.special import __all__ as __all__
