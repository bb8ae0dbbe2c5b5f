"""The default implementation under another name."""
from lamina_lowering._default import *

__contract__ = 1
