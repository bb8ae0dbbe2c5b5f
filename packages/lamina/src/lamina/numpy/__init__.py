"""`lamina.numpy`: the functions of `lamina_numpy`, and `fft` and `linalg`."""
# Before the star, whose `fft` and `linalg` are the room's modules: here a name is the module of its own dotted path.
from . import fft as _fft
from . import linalg as _linalg
from lamina_numpy import *
from lamina_numpy import __all__ as __all__

fft = _fft  # type: ignore[misc]  # the star brought another module of this name
linalg = _linalg  # type: ignore[misc]
