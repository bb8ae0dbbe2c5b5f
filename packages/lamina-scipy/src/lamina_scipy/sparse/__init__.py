"""Linear operators known by what they do, as `scipy.sparse` has them."""
from lamina_numpy.extend import publish as _publish

__all__ = ["linalg"]

_publish(globals(), {"linalg": ""})
