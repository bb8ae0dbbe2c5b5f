"""`lamina.scipy.fft`: cosine transforms, from `lamina_scipy.fft`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.fft import *
from lamina_scipy.fft import __all__ as __all__
