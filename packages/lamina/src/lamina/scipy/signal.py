"""`lamina.scipy.signal`: signals, from `lamina_scipy.signal`."""
from lamina_scipy.signal import *
from lamina_scipy.signal import __all__ as __all__
