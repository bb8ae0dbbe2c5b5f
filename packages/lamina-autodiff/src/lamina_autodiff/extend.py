"""The door for people who write rows: the tables, kinds of rows, derivatives of programs for ops that hold one.

Only they need more than the root: who writes another transformation takes `jvp`, `linearize` and `linear_transpose`.

- `jvp_rules` is the forward table: a row is a `Slopes`, a `Split`, or `row(primals, tangents, /, **params) -> (out, tangent)`,
  where the tangent of an operand that has none is None (`instantiate` makes it zeros), and so is that of a constant result.
- `transpose_rules` has `row(cotangent, *operands, /, **params)`, giving a cotangent per operand, None for those that are not
  linear (`is_linear`); of an op with several results the first argument is a list.
- `reverse_by` gives `vjp`, `grad` and their like with another way to pull back: what a stand-in for the strategy is made of.
  `Linearize` is the type of that way: `by(fun, flat primals, which are active)` gives (flat results, a `Pulling`).
"""
from .counting import from_outside
from .flows import flow_row
from .linear import is_linear
from .programs import Linearized, Pushforward, Transposed, jvp_program, linearize_program, transpose_program
from .rows import Slopes, Split, instantiate
from .strategies import Linearize, Pulling, ReverseMode, reverse_by
from .tables import jvp_rules, slope, transpose_rules, zero_jvp

__all__ = ["Linearize", "Linearized", "Pulling", "Pushforward", "ReverseMode", "Slopes", "Split", "Transposed", "flow_row",
           "from_outside", "instantiate", "is_linear", "jvp_program", "jvp_rules", "linearize_program", "reverse_by", "slope",
           "transpose_program", "transpose_rules", "zero_jvp"]
