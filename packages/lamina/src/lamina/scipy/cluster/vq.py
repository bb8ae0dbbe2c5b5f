"""`lamina.scipy.cluster.vq`: vector quantisation, from `lamina_scipy.cluster.vq`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.cluster.vq import *
from lamina_scipy.cluster.vq import __all__ as __all__
