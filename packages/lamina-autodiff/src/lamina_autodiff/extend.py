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
- `run_jvp` runs a function of flat values with the trace `JVPTrace`, whose tracers are of class `JVPTracer`.
- `remat_opt_p` has the name of a primitive of JAX, for programs that look it up. It does not occur in programs.
"""
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr

from ._custom.custom_vjp import remat_opt_p
from ._engine.replicated_cotangents import outside_map_context
from ._engine.higher_order import make_higher_order_rule
from ._engine.linearize import is_linear
from ._engine.jaxpr_derivatives import (LinearizedProgram, Pushforward, TransposedProgram, jvp_program,
                                        linearize_program, transpose_program)
from ._engine.jvp_trace import JVPTrace, JVPTracer, run_jvp
from ._engine.rule_kinds import ElementwiseJVP, LinearizeRule, instantiate
from ._api.reverse_mode import Linearize, LinearizedFunction, ReverseMode, make_reverse_mode
from ._engine.rule_tables import jvp_rules, def_elementwise_jvp, transpose_rules, def_zero_jvp

__all__ = ["ElementwiseJVP", "JVPTrace", "JVPTracer", "Linearize", "LinearizeRule", "LinearizedFunction",
           "LinearizedProgram", "Pushforward", "ReverseMode", "TransposedProgram", "def_elementwise_jvp",
           "def_zero_jvp", "instantiate", "is_linear", "jvp_program", "jvp_rules", "linearize_program",
           "make_higher_order_rule", "make_reverse_mode", "outside_map_context", "remat_opt_p", "run_jvp",
           "transpose_program", "transpose_rules"]

if TYPE_CHECKING:
    from ._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
