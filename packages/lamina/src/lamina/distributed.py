"""`lamina.distributed`: several processes as one, from `lamina_runtime.distributed`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_runtime.distributed import *
from lamina_runtime.distributed import __all__ as __all__
