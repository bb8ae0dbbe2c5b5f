"""Extension API for authors of differentiation rules: rule tables, kinds of rules, derivatives of whole programs.

A new transformation needs only `jvp`, `linearize` and `linear_transpose` of the package root.

- `jvp_rules` maps a primitive to its JVP rule: an `ElementwiseJVP`, a `LinearizeRule`, or a function
  `rule(primals, tangents, /, **params) -> (out, tangent)`. A zero tangent is None; `instantiate` makes it an array of
  zeros.
- `transpose_rules` maps a primitive to `rule(cotangent, *operands, /, **params)`. The rule returns one cotangent per
  operand, None if the operand is not linear (`is_linear`). If the primitive has several results, the first argument is
  a list.
- `make_reverse_mode` builds `vjp`, `grad` etc. from another linearizer; alternative implementations of reverse mode use
  it. A linearizer has the type `Linearize`: `linearize(fun, flat_primals, active)` returns (flat results, a
  `LinearizedFunction`).
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
