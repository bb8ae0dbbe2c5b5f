"""Extension API, in two modules whose names are also exported here.

- `extend.ops`: for authors of primitives: the rule table and helpers for batching rules.
- `extend.transformations`: for authors of transformations: `vmap` with another implementation.

`lamina_tracing.extend.MappedAxes` checks `in_axes` and sizes for any transformation that maps over axes.
"""
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr

from . import ops, transformations
from .ops import *
from .transformations import *

__all__ = sorted(["ops", "transformations", *ops.__all__, *transformations.__all__])

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
