"""`lamina.distributed`: several processes as one, from `lamina_runtime.distributed`."""
from . import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_runtime.distributed import *
from lamina_runtime.distributed import __all__ as __all__
