"""`lamina.scipy.fft`: cosine transforms, from `lamina_scipy.fft`."""
from .. import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.fft import *
from lamina_scipy.fft import __all__ as __all__
