"""Space, as `scipy.spatial` has it."""
from lamina_numpy.extend import publish as _publish

__all__ = ["transform"]

_publish(globals(), {"transform": ""})
