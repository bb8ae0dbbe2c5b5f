"""The default implementation, re-exported."""
from lamina_distributed._default import *

__contract__ = 1
