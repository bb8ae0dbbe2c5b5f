"""`lamina.ops`: sums and extremes over segments, from `lamina_numpy.ops`."""
from lamina_numpy.ops import *
from lamina_numpy.ops import __all__ as __all__
