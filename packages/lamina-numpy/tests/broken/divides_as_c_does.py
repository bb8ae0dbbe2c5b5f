"""The remainder has the sign of the dividend."""
from lamina_numpy import _default
from lamina_numpy._default import *

__contract__ = 1

remainder = _default.fmod
