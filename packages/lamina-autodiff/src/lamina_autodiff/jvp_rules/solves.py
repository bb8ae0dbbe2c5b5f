"""JVP rule of `linear_solve`: `dx = A^-1 (db - dA x)`, another solve with the same programs."""
from __future__ import annotations

from lamina_ir import ClosedJaxpr, prims
from lamina_ir.typing import ParamValue, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, eval_jaxpr

from .._engine.jvp_trace import instantiate, JVPTrace, run_jvp
from .._engine.rule_kinds import LinearizeRule
from .._engine.rule_tables import jvp_rules
from .._typing import LinearRecorder, RuleResult, Tangent

__all__: list[str] = []


def _linear_solve(linear: LinearRecorder, primals: list[Value], tangents: list[Tangent], num_consts: int, num_aux: int,
                  matvec: ClosedJaxpr, **params: ParamValue) -> RuleResult:
    params.update(num_consts=num_consts, num_aux=num_aux, matvec=matvec)
    outs = bind(prims.linear_solve_p, *primals, **params)
    n = len(outs) - num_aux
    consts, moved = primals[:num_consts], tangents[:num_consts]
    right = list(tangents[num_consts:])
    if any(t is not None for t in moved):
        # `change` is dA x: the derivative of the matvec with respect to its constants, at the solution.
        _, change = run_jvp(lambda *cs: eval_jaxpr(matvec, (*cs, *outs[:n])), consts, moved, linear)
        right = [r if c is None else lax.neg(c) if r is None else lax.sub(r, c) for r, c in zip(right, change)]
    if all(r is None for r in right):
        return outs, [None] * len(outs)
    right = [instantiate(r, b) for r, b in zip(right, primals[num_consts:])]
    tangent = bind(prims.linear_solve_p, *consts, *right, **params)
    return outs, [*tangent[:n], *[None] * num_aux]


def linear_solve_jvp(primals: list[Value], tangents: list[Tangent], **params: ParamValue) -> RuleResult:
    return _linear_solve(None, primals, tangents, **params)


def linear_solve_linearize(trace: JVPTrace, primals: list[Value], tangents: list[Tangent],
                           **params: ParamValue) -> RuleResult:
    return _linear_solve(trace.linear, primals, tangents, **params)


jvp_rules.define(prims.linear_solve_p, LinearizeRule(linear_solve_jvp, linear_solve_linearize))
