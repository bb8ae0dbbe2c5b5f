"""`lamina.scipy.optimize`: minima, from `lamina_scipy.optimize`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.optimize import *
from lamina_scipy.optimize import __all__ as __all__
