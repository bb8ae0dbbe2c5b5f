"""What networks are made of: activations, softmax and its kin, and initial weights."""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import fill as _fill

from . import _version  # noqa: F401  first: it says which versions of neighbours fit

if _TYPE_CHECKING:
    from .stock import *
    from .stock import __all__ as __all__

_fill(globals())
