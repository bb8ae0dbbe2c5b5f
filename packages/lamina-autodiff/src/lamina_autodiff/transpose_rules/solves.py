"""Transpose rule of `linear_solve` in its right-hand side: solve the transposed system with `transpose_solve`."""
from __future__ import annotations

from lamina_ir import ClosedJaxpr, Jaxpr, MissingRuleError, prims
from lamina_ir.typing import Value
from lamina_tracing import lax
from lamina_tracing.extend import bind

from .._engine.linearize import is_linear
from .._engine.jaxpr_derivatives import transpose_program
from .._engine.rule_tables import transpose_rules
from .._typing import Cotangents

__all__: list[str] = []


def linear_solve_transpose(cts: list[Value], *args: Value, matvec: ClosedJaxpr, num_aux: int, num_consts: int,
                           solve: ClosedJaxpr, transpose_solve: ClosedJaxpr) -> Cotangents:
    consts, right = args[:num_consts], args[num_consts:]
    if transpose_solve is None:
        raise MissingRuleError("transpose of custom_linear_solve is not defined: transpose_solve is missing; pass it, or "
                               "symmetric=True, to differentiate in reverse")
    if any(is_linear(c) for c in consts):
        raise MissingRuleError("transpose of custom_linear_solve is not defined if the matrix itself depends on the linear "
                               "variables")
    # b* = A^-T x*: the same primitive with the transposed matvec and the two solvers exchanged, so it can be transposed
    # again.
    n = len(right)
    flags = (False,) * num_consts + (True,) * n
    back = transpose_program(matvec, flags, (True,) * n, (True,) * n).program
    jaxpr = solve.jaxpr
    forward_solve = ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.eqns, jaxpr.outvars[:n], jaxpr.axis_names,
                                      jaxpr.effectful), solve.consts) if num_aux else solve
    given = [lax.full_like(r, 0) if ct is None else ct for ct, r in zip(cts, right)]
    outs = bind(prims.linear_solve_p, *consts, *given, matvec=back, num_aux=0, num_consts=num_consts,
                solve=transpose_solve, transpose_solve=forward_solve)
    result = [None] * num_consts + [o if is_linear(r) else None for o, r in zip(outs, right)]
    return result[0] if len(args) == 1 else result


transpose_rules.define(prims.linear_solve_p, linear_solve_transpose)
