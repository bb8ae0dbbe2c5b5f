"""`lamina.scipy.cluster`: its modules, of those in `lamina_scipy.cluster`."""
from . import vq

__all__ = ["vq"]
