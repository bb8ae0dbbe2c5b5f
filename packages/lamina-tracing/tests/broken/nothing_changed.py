"""The stock under another name."""
from lamina_tracing._default import *

__contract__ = 1
