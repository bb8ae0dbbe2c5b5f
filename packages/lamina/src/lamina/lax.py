"""`lamina.lax`: the typed functions of `lamina_tracing.lax`."""
from lamina_tracing.lax import *
from lamina_tracing.lax import __all__ as __all__
