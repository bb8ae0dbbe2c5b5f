"""Memory layouts of arrays: `DeviceLocalLayout`, `Layout`."""
from lamina_ir.layers import deprecated_getattr

from ._array.memory_layout import *
from ._array.memory_layout import __all__ as __all__

__getattr__ = deprecated_getattr(__name__)
