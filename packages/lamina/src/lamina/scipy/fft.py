"""`lamina.scipy.fft`: cosine transforms, from `lamina_scipy.fft`."""
from lamina_scipy.fft import *
from lamina_scipy.fft import __all__ as __all__
