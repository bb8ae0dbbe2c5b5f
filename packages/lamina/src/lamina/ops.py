"""`lamina.ops`: sums and extremes over segments, from `lamina_numpy.ops`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_numpy.ops import *
from lamina_numpy.ops import __all__ as __all__
