"""Extension API, one module per use; this package re-exports all their names.

- `extend.ops`: add primitives: `bind`, types of values, checks and normalization of arguments.
- `extend.transformations`: write transformations: traces, staging, custom calls, mapped axes, source lines of rules.
- `extend.dispatchers`: write dispatchers, which make fast calls from staged functions: jit options, errors about
  arguments, tracebacks, logs.
- `extend.runtimes`: add array types: the arrays of the NumPy evaluator, and the set of types that count as arrays.
"""
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr

from . import dispatchers, ops, runtimes, transformations
from .dispatchers import *
from .ops import *
from .runtimes import *
from .transformations import *

__all__ = sorted(["dispatchers", "ops", "runtimes", "transformations",
           *ops.__all__, *transformations.__all__, *dispatchers.__all__, *runtimes.__all__])

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
