"""`lamina.distributed`: several processes as one, from `lamina_runtime.distributed`."""
from lamina_runtime.distributed import *
from lamina_runtime.distributed import __all__ as __all__
