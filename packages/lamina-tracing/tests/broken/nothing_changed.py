"""The stock under another name."""
from lamina_tracing.stock import *

__contract__ = 1
