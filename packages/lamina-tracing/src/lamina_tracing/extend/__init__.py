"""The doors below the public names, one for each kind of reader; all their names are here too.

- `extend.ops`: for people who add ops: `bind`, types of values, arguments checked and made alike.
- `extend.transformations`: for people who write transformations: traces, staging, custom calls, mapped axes, source
  lines of rules.
- `extend.dispatchers`: for people who make staged functions into fast calls: what `jit` was given, errors about
  arguments, tracebacks, logs.
- `extend.runtimes`: for people who bring arrays of their own: the arrays of NumPy's evaluator, and types that are
  taken for arrays.
"""
from . import dispatchers, ops, runtimes, transformations
from .dispatchers import *
from .ops import *
from .runtimes import *
from .transformations import *

__all__ = sorted(["dispatchers", "ops", "runtimes", "transformations",
           *ops.__all__, *transformations.__all__, *dispatchers.__all__, *runtimes.__all__])
