"""`lamina.extend.core.primitives`: every op under the name people know it by, from `lamina_tracing.primitives`."""
from lamina_tracing.primitives import *
from lamina_tracing.primitives import __all__ as __all__
