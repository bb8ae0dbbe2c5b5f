"""Vector quantisation, named as `scipy.cluster.vq` names it."""
from lamina_numpy.extend import publish as _publish

from .._vq import vq

__all__ = ["vq"]

_publish(globals())
