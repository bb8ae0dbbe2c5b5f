"""`lamina.parallel`: maps over devices other than `pmap`, from `lamina_parallel`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_parallel import padded

__all__ = ["padded"]
