"""The stock under another name."""
from lamina_runtime.stock import *

__contract__ = 1
