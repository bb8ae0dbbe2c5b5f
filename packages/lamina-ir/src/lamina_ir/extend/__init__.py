"""Extension API, in one module per purpose; this package re-exports all names.

- `extend.ops`: for new primitives: param types, region signatures, host functions.
- `extend.transformations`: for new transformations: rule tables, rewriting and splitting of nested programs, checkpoint
  policies.
- `extend.runtimes`: for runtimes: observing equations, loop iterations, another pytree backend, the recursion limit.
"""
from typing import TYPE_CHECKING

from ..layers import deprecated_getattr

from . import ops, runtimes, transformations
from .ops import *
from .runtimes import *
from .transformations import *

__all__ = sorted(["ops", "runtimes", "transformations", *ops.__all__, *transformations.__all__, *runtimes.__all__])

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
