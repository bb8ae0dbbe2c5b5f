"""Element types: names, canonical widths, weak types and the promotion lattice."""
from ._types.dtypes import *
from ._types.dtypes import __all__ as __all__
from .layers import deprecated_getattr

__getattr__ = deprecated_getattr(__name__)
