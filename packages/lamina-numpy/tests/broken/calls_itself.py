"""A function is a call in the program it is used in, and not a part of it."""
from lamina_numpy import _default
from lamina_numpy._default import *
from lamina_tracing import jit

__contract__ = 1

sin = jit(_default.sin)
