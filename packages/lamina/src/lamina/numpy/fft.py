"""`lamina.numpy.fft`: Fourier transforms, from `lamina_numpy.fft`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_numpy.fft import *
from lamina_numpy.fft import __all__ as __all__
