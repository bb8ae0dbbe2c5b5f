"""Reports of where a compiled call runs and what its devices exchange."""
from lamina_ir.layers import deprecated_getattr

from ._placement.plan import *
from ._placement.plan import __all__ as __all__

__getattr__ = deprecated_getattr(__name__)
