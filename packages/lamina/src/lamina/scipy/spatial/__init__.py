"""`lamina.scipy.spatial`: its modules, of those in `lamina_scipy.spatial`."""
from . import transform

__all__ = ["transform"]
