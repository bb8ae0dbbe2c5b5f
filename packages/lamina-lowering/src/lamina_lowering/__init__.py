"""Programs to StableHLO: one row per op and platform, and the module around them. Imports `lamina_ir` and MLIR only."""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import fill as _fill

from . import _version  # noqa: F401  first: it says which versions of neighbours fit

if _TYPE_CHECKING:
    from .stock import *
    from .stock import __all__ as __all__

_fill(globals(), rows=("rules",))
