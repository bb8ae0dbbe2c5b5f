"""`lamina.scipy.cluster`: its modules, of those in `lamina_scipy.cluster`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from . import vq

__all__ = ["vq"]
