"""The default implementation under another name."""
from lamina_batching._default import *

__contract__ = 1
