"""The stock under another name."""
from lamina_parallel.stock import *

__contract__ = 1
