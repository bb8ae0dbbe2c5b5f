"""The doors below the public names, one for each kind of reader; all their names are here too.

- `extend.ops`: for people who add ops: names and kinds of params, how an op that holds programs is wired, host
  functions.
- `extend.transformations`: for people who write transformations: tables of rules, nested programs rewritten and
  divided, what checkpoints keep.
- `extend.runtimes`: for people who run programs: every equation watched, turns of loops, another backend for trees,
  room on the stack.
"""
from . import ops, runtimes, transformations
from .ops import *
from .runtimes import *
from .transformations import *

__all__ = sorted(["ops", "runtimes", "transformations", *ops.__all__, *transformations.__all__, *runtimes.__all__])
