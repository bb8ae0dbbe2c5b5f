"""Sparse arrays, which store only some of their elements: BCOO, BCSR, and functions on them."""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import reexport_implementation as _fill

from . import _version  # noqa: F401  first: it checks the versions of sibling packages

if _TYPE_CHECKING:
    from ._default import *
    from ._default import __all__ as __all__

_fill(globals())
