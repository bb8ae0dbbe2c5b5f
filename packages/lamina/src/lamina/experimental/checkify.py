"""`lamina.experimental.checkify`: checks whose errors are values, from `lamina_checkify`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_checkify import *
from lamina_checkify import __all__ as __all__
