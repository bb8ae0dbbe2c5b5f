"""`lamina.parallel`: maps over devices beside `pmap`, from `lamina_parallel`."""
from . import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_parallel import padded

__all__ = ["padded"]
