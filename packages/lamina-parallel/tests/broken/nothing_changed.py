"""The default implementation under another name."""
from lamina_parallel._default import *

__contract__ = 1
