"""`lamina.scipy.special`: special functions, from `lamina_numpy.special`."""
from lamina_numpy.special import *
from lamina_numpy.special import __all__ as __all__
