"""`lamina.experimental.ode`: ordinary differential equations, from `lamina_scipy.ode`."""
from lamina_scipy.ode import *
from lamina_scipy.ode import __all__ as __all__
