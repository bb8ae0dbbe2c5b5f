"""`lamina.stages`: a jitted function step by step, from `lamina_runtime.stages`."""
from lamina_runtime.stages import *
from lamina_runtime.stages import __all__ as __all__
