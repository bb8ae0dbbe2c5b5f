"""The default implementation under another name."""
from lamina_autodiff._default import *

__contract__ = 1
