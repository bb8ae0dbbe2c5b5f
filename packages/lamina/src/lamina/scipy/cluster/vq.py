"""`lamina.scipy.cluster.vq`: vector quantisation, from `lamina_scipy.cluster.vq`."""
from lamina_scipy.cluster.vq import *
from lamina_scipy.cluster.vq import __all__ as __all__
