"""The stock under another name."""
from lamina_autodiff.stock import *

__contract__ = 1
