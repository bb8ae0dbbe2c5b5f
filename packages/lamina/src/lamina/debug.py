"""`lamina.debug`: looking into running programs, from `lamina_tracing.debug`."""
from lamina_tracing.debug import *
from lamina_tracing.debug import __all__ as __all__
