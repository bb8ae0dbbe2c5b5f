"""`lamina.scipy.spatial`: its modules, of those in `lamina_scipy.spatial`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from . import transform

__all__ = ["transform"]
