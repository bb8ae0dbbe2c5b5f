"""Named axes: `pmap`, `xmap`, `shard_map`, their transformation rules, and the collectives. Needs no backend."""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import fill as _fill

from . import _version  # noqa: F401 first: checks the versions of sibling packages

if _TYPE_CHECKING:
    from .stock import *
    from .stock import __all__ as __all__

_fill(globals())
