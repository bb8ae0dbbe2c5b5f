"""`lamina.flatten_util`: trees as vectors, from `lamina_numpy.flatten_util`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_numpy.flatten_util import *
from lamina_numpy.flatten_util import __all__ as __all__
