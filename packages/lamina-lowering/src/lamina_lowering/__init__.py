"""Lower programs to StableHLO: one rule per primitive and platform, and the module. Imports only `lamina_ir` and MLIR.
"""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import fill as _fill

from . import _version  # noqa: F401 first: checks the versions of sibling packages

if _TYPE_CHECKING:
    from .stock import *
    from .stock import __all__ as __all__

_fill(globals(), rows=("rules",))
