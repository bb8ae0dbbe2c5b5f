"""`lamina.scipy.integrate`: integrals, from `lamina_scipy.integrate`."""
from lamina_scipy.integrate import *
from lamina_scipy.integrate import __all__ as __all__
