"""`lamina.scipy.sparse`: its modules, of those in `lamina_scipy.sparse`."""
from . import linalg

__all__ = ["linalg"]
