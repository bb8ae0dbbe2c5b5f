"""`lamina.profiler`: where the time goes, from `lamina_runtime.profiler`."""
from lamina_runtime.profiler import *
from lamina_runtime.profiler import __all__ as __all__
