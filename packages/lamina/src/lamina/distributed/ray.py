"""`lamina.distributed.ray`: the processes are workers of a Ray cluster, from `lamina_distributed.ray`."""
from lamina_distributed.ray import *
from lamina_distributed.ray import __all__ as __all__
