"""`lamina.scipy.sparse`: its modules, of those in `lamina_scipy.sparse`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from . import linalg

__all__ = ["linalg"]
