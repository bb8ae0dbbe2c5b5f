"""Images at places between their elements, named as `scipy.ndimage` names it."""
from lamina_numpy.extend import publish as _publish

from ._ndimage import map_coordinates

__all__ = ["map_coordinates"]

_publish(globals())
