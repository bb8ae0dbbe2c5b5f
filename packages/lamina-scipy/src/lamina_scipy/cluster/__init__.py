"""Clusters, as `scipy.cluster` has them."""
from lamina_numpy.extend import publish as _publish

__all__ = ["vq"]

_publish(globals(), {"vq": ""})
