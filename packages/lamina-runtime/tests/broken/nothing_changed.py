"""The default implementation under another name."""
from lamina_runtime._default import *

__contract__ = 1
