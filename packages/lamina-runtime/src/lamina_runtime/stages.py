"""Steps of a jitted function: `Traced`, `Lowered`, `Compiled`."""
from lamina_ir.layers import deprecated_getattr

from ._dispatch.stages import *
from ._dispatch.stages import __all__ as __all__

__getattr__ = deprecated_getattr(__name__)
