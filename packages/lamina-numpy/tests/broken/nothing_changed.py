"""The stock under another name."""
from lamina_numpy.stock import *

__contract__ = 1
