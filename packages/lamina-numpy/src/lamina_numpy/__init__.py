"""The NumPy functions of lamina: `import lamina_numpy as lnp`, then as with `numpy`, traced, differentiated and mapped.

Modules here contain plain functions; the exported versions are jitted, so that an eager call is one compiled call.
"""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import reexport_implementation as _fill

from . import _version  # noqa: F401  first: it says which versions of neighbours fit

if _TYPE_CHECKING:
    from ._default import *
    from ._default import __all__ as __all__

_fill(globals())
