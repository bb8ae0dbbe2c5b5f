"""Vectorization: `vmap` and its rule table. Needs no backend."""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import fill as _fill

from . import _version  # noqa: F401  first: it checks the versions of the dependencies

if _TYPE_CHECKING:
    from .stock import *
    from .stock import __all__ as __all__

_fill(globals(), rows=("rules",))
