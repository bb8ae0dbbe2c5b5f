"""Named axes: `pmap`, `xmap`, `shard_map`, their transformation rules, and the collectives. Needs no backend."""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import reexport_implementation as _fill

from . import _version  # noqa: F401 first: checks the versions of sibling packages

if _TYPE_CHECKING:
    from ._default import *
    from ._default import __all__ as __all__

_fill(globals())
