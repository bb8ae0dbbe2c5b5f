"""`lamina.scipy.integrate`: integrals, from `lamina_scipy.integrate`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.integrate import *
from lamina_scipy.integrate import __all__ as __all__
