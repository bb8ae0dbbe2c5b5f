"""The default implementation under another name."""
from lamina_numpy._default import *

__contract__ = 1
