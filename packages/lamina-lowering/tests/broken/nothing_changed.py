"""The stock under another name."""
from lamina_lowering.stock import *

__contract__ = 1
