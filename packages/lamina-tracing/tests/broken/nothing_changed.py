"""The default implementation under another name."""
from lamina_tracing._default import *

__contract__ = 1
