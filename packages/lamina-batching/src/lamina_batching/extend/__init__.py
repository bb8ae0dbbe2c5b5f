"""The doors below the public names, one for each kind of reader; all their names are here too.

- `extend.ops`: for people who add ops: the table of rows, and what rows are made of.
- `extend.transformations`: for people who map in another way: `vmap` with another strategy.

Who writes maps over axes finds `in_axes` and sizes checked by `lamina_tracing.extend.MappedAxes`.
"""
from . import ops, transformations
from .ops import *
from .transformations import *

__all__ = sorted(["ops", "transformations", *ops.__all__, *transformations.__all__])
