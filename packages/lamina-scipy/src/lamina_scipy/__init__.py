"""What SciPy has beyond NumPy: a module for each of its own, loaded when it is first asked for.

To add a module, add its name to `__all__`, where `lamina`, the tests and the tools find it.
"""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import reexport_implementation as _fill

from . import _version  # noqa: F401  first: it says which versions of neighbours fit

if _TYPE_CHECKING:
    from ._default import *
    from ._default import __all__ as __all__

_fill(globals())
