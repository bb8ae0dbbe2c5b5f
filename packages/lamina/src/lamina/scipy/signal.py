"""`lamina.scipy.signal`: signals, from `lamina_scipy.signal`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.signal import *
from lamina_scipy.signal import __all__ as __all__
