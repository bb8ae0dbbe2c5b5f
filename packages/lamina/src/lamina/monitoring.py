"""`lamina.monitoring`: events for programs that watch lamina, from `lamina_ir.monitoring`."""
from lamina_ir.monitoring import *
from lamina_ir.monitoring import __all__ as __all__
