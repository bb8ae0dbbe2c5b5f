"""Transpose rules of calls with custom rules, of checkpointed calls and of identity-like primitives.

A checkpointed call recomputes its residuals in its transpose. A transposed call runs its `transpose_jaxpr`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, Primitive, prims, shaped
from lamina_ir.typing import Function, Params, ParamValue, Value
from lamina_tracing import hooks
from lamina_tracing.extend import (EVALUATION, Tracer, bind, eager_source_requests, eval_jaxpr, make_rule_source,
                                   trace_state)

from .._engine.arg_checks import zeros_of
from .._engine.replicated_cotangents import scale_unreduced
from ..jvp_rules.custom import _repeat_over_batch
from .._engine.linearize import is_linear, record_linear
from .._engine.jaxpr_derivatives import transpose_program
from .._checkpoint.checkpoint import call_program
from .._engine.rule_kinds import drop_zeros, expand_by_mask
from .._engine.rule_tables import transpose_rules
from .._typing import Cotangents, Tangent

__all__: list[str] = []


def _call_transpose(prim: Primitive, cts: list[Value], args: Sequence[Value], call_jaxpr: ClosedJaxpr,
                    params: Params) -> Cotangents:
    linear = tuple(is_linear(a) for a in args)
    # The sum over members for a replicated operand comes after the call; with a batching rule, inside its program.
    back = transpose_program(call_jaxpr, linear, tuple(ct is not None for ct in cts), allow_unreduced="rule" not in params)
    known = [a for a in args if not is_linear(a)]
    if "rule" in params:
        params["rule"] = _transpose_batching_rule(params["rule"], call_jaxpr, linear, cts, back.active_out)
    # The transposed call is a call of the same kind: a checkpointed one recomputes, also inside other transforms.
    outs = call_program(prim, back.program, [*known, *drop_zeros(cts)], **params)
    overs = [a.aval.varying_axes for a, on in zip([a for a in args if is_linear(a)], back.active_out) if on]
    outs = scale_unreduced(outs, back.program.out_avals, overs)
    result = expand_by_mask(expand_by_mask(outs, back.active_out), linear)
    return result[0] if len(args) == 1 else result


def remat_transpose(cts: list[Value], *args: Value, call_jaxpr: ClosedJaxpr, **params: ParamValue) -> Cotangents:
    # The transpose recomputes the forward part and must not be merged with it (`differentiated`). It saves nothing
    # further.
    params["differentiated"] = True
    params["policy"] = None
    return _call_transpose(prims.remat_p, cts, args, call_jaxpr, params)


def custom_vmap_call_transpose(cts: list[Value], *args: Value, call_jaxpr: ClosedJaxpr,
                               **params: ParamValue) -> Cotangents:
    return _call_transpose(prims.custom_vmap_call_p, cts, args, call_jaxpr, params)


def _transpose_batching_rule(rule: Any, closed: ClosedJaxpr, linear: Sequence[bool], cts: Sequence[Tangent],
                             active: Sequence[bool]) -> prims.Rule:
    """Return the batching rule of the transpose: the transposed batching rule, with all linear operands batched."""
    if rule.call is None:
        return rule
    on = [ct is not None for ct in cts]

    def call(size: int, batched: Sequence[bool], args: Sequence[Value]) -> tuple[list[Value], list[bool]]:
        # args: known values, then cotangents. fixed: per operand of the rule (value, batched), or None if it is linear.
        n = len(linear) - sum(linear)
        known, flags = iter(args[:n]), iter(batched[:n])
        fixed = [None if is_lin else (next(known), next(flags)) for is_lin in linear]
        # The transposed rule works on a whole batch, so cotangents that all examples share are repeated.
        given = [x if b else _repeat_over_batch(x, size) for x, b in zip(args[n:], batched[n:])]
        avals = [a.strip_weak_type() for a, is_lin in zip(closed.in_avals, linear) if is_lin]
        out_batched: list[bool] = []

        def run(*ts: Value) -> list[Value]:
            rest = iter(ts)
            full = [next(rest) if f is None else f[0] for f in fixed]
            outs, out_batched[:] = rule.call(size, [True if f is None else f[1] for f in fixed], full)
            # Repeating is linear: its transpose sums the cotangents of the examples.
            return [o if b else _repeat_over_batch(o, size) for o, b in zip(outs, out_batched)]

        wide = [shaped((size, *a.shape), a.dtype) for a in avals]
        back = record_linear(run, wide).backward(expand_by_mask(given, on))
        found = [zeros_of(w) if b is None else b for b, w, a in zip(back, wide, active) if a]
        return found, [True] * len(found)

    return prims.Rule(rule.name, call=call)


def _run_transpose(transpose_jaxpr: ClosedJaxpr, operands: list[Value]) -> list[Value]:
    """Run the transpose: with NumPy as one program, if all operands are known, else equation by equation."""
    if (trace_state.trace is EVALUATION and isinstance(hooks.evaluator, hooks.NumPyEvaluator) and not trace_state.axes
            and not eager_source_requests and not any(isinstance(x, Tracer) for x in operands)):
        return hooks.evaluator.program(transpose_jaxpr, operands)
    return eval_jaxpr(transpose_jaxpr, operands)


def transposed_call_transpose(cts: list[Value], *args: Value, forward: prims.Rule, num_held: int,
                              transpose_jaxpr: ClosedJaxpr) -> Cotangents:
    avals = transpose_jaxpr.in_avals[num_held:]
    # The backward rule of a `custom_vjp` with symbolic zeros has a program for each set of cotangents.
    special = forward.specialized(tuple([ct is not None for ct in cts]))
    program = transpose_jaxpr if special is forward else special.program()
    given = [zeros_of(a) if ct is None else ct for ct, a in zip(cts, avals) if special is forward or ct is not None]
    # Equations get the lines of the user's backward rule.
    line, trace_state.source = trace_state.source, make_rule_source("backward")
    try:
        found = _run_transpose(program, [*args[:num_held], *given])
    finally:
        trace_state.source = line
    if len(args) == 1:
        return found[0]
    return [None] * num_held + [b if is_linear(a) else None for a, b in zip(args[num_held:], found)]


def _make_body_transpose(prim: Primitive) -> Function:
    """Return a rule that transposes the function itself, ignoring its custom derivative: the call is linear."""
    def rule(cts: list[Value], *args: Value, call_jaxpr: ClosedJaxpr, **params: ParamValue) -> Cotangents:
        return _call_transpose(prims.xla_call_p, cts, args, call_jaxpr, dict(
            name=params["name"], donated_invars=(), inline=False, device=None, backend=None))
    return rule


def _transpose_barrier(cts: list[Value]) -> list[Tangent]:
    return expand_by_mask(bind(prims.optimization_barrier_p, *drop_zeros(cts)), [ct is not None for ct in cts])


transpose_rules.define(prims.custom_jvp_call_p, _make_body_transpose(prims.custom_jvp_call_p))
transpose_rules.define(prims.custom_vjp_call_p, _make_body_transpose(prims.custom_vjp_call_p))
transpose_rules.define(prims.custom_vmap_call_p, custom_vmap_call_transpose)
transpose_rules.define(prims.transposed_call_p, transposed_call_transpose)
transpose_rules.define(prims.remat_p, remat_transpose)
transpose_rules.define(prims.name_p, lambda ct, x, *, name: ct)
transpose_rules.define(prims.to_memory_p, lambda ct, x, *, memory_kind: ct)
transpose_rules.define(prims.optimization_barrier_p, lambda cts, *args: (
    _transpose_barrier(cts)[0] if len(args) == 1 else _transpose_barrier(cts)))
transpose_rules.define(prims.sharding_constraint_p, lambda ct, x, **params: bind(prims.sharding_constraint_p, ct,
                                                                                   **params))
