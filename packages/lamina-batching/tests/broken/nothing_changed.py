"""The stock under another name."""
from lamina_batching.stock import *

__contract__ = 1
