"""`lamina.distributed`: several processes as one, from `lamina_distributed`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_distributed import *
from lamina_distributed import __all__ as _names

from . import ray as ray

__all__ = [*_names, "ray"]
