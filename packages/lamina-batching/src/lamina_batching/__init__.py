"""Vectorization: `vmap` and its rule table. Needs no backend."""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import reexport_implementation as _fill

from . import _version  # noqa: F401  first: it checks the versions of the dependencies

if _TYPE_CHECKING:
    from ._default import *
    from ._default import __all__ as __all__

_fill(globals(), rule_modules=("rules",), rules_on_demand=True)
