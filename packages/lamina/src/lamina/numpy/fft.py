"""`lamina.numpy.fft`: Fourier transforms, from `lamina_numpy.fft`."""
from lamina_numpy.fft import *
from lamina_numpy.fft import __all__ as __all__
