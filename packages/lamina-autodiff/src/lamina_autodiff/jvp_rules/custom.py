"""JVP rules of calls with custom rules and of checkpointed calls.

Custom derivatives run the program of the user's rule. Checkpointed calls are split into the call and its recomputation.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, dce, dtypes, Jaxpr, Primitive, prims, ShapedArray, Var
from lamina_ir.typing import Function, Params, ParamValue, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, eval_jaxpr, typeof

from .._engine.replicated_cotangents import mean_over_replicas
from .._engine.custom_vjp_pullback import transpose_backward_rule
from .._engine.arg_checks import unbound_axes_error
from .._engine.jvp_trace import instantiate, JVPTrace, run_jvp
from .._engine.jaxpr_derivatives import jvp_program
from .._checkpoint.checkpoint import call_program, recompute_program, RecomputedProgram
from .._engine.rule_kinds import LinearizeRule, drop_zeros, expand_by_mask
from .._engine.rule_tables import jvp_rules
from .._typing import LinearRecorder, Policy, RuleResult, Tangent

__all__: list[str] = []


def _inexact(aval: ShapedArray) -> bool:
    return dtypes.is_inexact(aval.dtype)


def _check_constant_consts(prim: Primitive, name: str, tangents: Sequence[Tangent], num_consts: int) -> None:
    if any(t is not None for t in tangents[:num_consts]):
        raise TypeError(f"{prim.name.removesuffix('_call')} of `{name}`: it closes over a value that is being differentiated, "
                        f"so its rule cannot give the derivative. Pass the value to `{name}` as an argument "
                        "(lamina.closure_convert finds such values), or wrap it in lax.stop_gradient")


def _make_rule(prim: Primitive, jvp: Function, linearize: Function | None = None) -> Function:
    """Return a rule that just calls the function if no operand has a tangent, and `jvp` or `linearize` otherwise."""
    def skip_if_constant(rule: Function) -> Function:
        def wrapped(*args: Any, call_jaxpr: ClosedJaxpr, **params: ParamValue) -> RuleResult:
            if drop_zeros(args[-1]):
                return rule(*args, call_jaxpr=call_jaxpr, **params)
            outs = call_program(prim, call_jaxpr, args[-2], **params)
            return outs, [None] * len(outs)

        return wrapped

    return skip_if_constant(jvp) if linearize is None else LinearizeRule(skip_if_constant(jvp), skip_if_constant(linearize))


# --- custom_jvp_call ----------------------------------------------------------------------------------------------
def custom_jvp_call_jvp(primals: Sequence[Value], tangents: Sequence[Tangent], *, call_jaxpr: ClosedJaxpr,
                        jvp: prims.Rule, name: str, num_consts: int) -> RuleResult:
    avals = call_jaxpr.out_avals
    _check_constant_consts(prims.custom_jvp_call_p, name, tangents, num_consts)
    pairs = [(p, t) for p, t in zip(primals[num_consts:], tangents[num_consts:]) if _inexact(typeof(p))]
    special = jvp.specialized(tuple([t is not None for p, t in pairs]))
    given = [instantiate(t, p) for p, t in pairs if special is jvp or t is not None]
    outs = eval_jaxpr(special.program(), [*primals, *given])
    return outs[:len(avals)], expand_by_mask(outs[len(avals):], map(_inexact, avals))


# --- custom_vjp_call ----------------------------------------------------------------------------------------------
def _forward_pass(primals: Sequence[Value], tangents: Sequence[Tangent],
                  params: Params) -> tuple[list[Value], list[Value], ClosedJaxpr, Function | None]:
    """Run the forward rule; return (results, residuals, backward program for the active arguments, and the function that
    returns this program for given active cotangents, or None if the rule does not distinguish them)."""
    n = params["num_consts"]
    _check_constant_consts(prims.custom_vjp_call_p, params["name"], tangents, n)
    count = len(params["call_jaxpr"].out_avals)
    active = tuple([t is not None for p, t in zip(primals[n:], tangents[n:]) if _inexact(typeof(p))])
    fwd, bwd = params["fwd"], params["bwd"]
    outs = eval_jaxpr(fwd.specialized(active).program(), primals)
    every = (True,) * sum(map(_inexact, params["call_jaxpr"].out_avals))

    def backward(cotangents: tuple[bool, ...]) -> ClosedJaxpr:
        # The backward program returns cotangents of all inexact arguments; keep those of the active ones only.
        program = bwd.specialized((*active, *cotangents)).program()
        return program.memo(("active", active), lambda: dce(program, active, instantiate=True)[0])

    return outs[:count], outs[count:], backward(every), backward if bwd.distinguishes_zeros else None


def custom_vjp_call_jvp(primals: Sequence[Value], tangents: Sequence[Tangent], **params: ParamValue) -> RuleResult:
    outs, residuals, bwd, _ = _forward_pass(primals, tangents, params)
    error = unbound_axes_error(bwd.jaxpr.axis_names, params["name"])
    if error is not None:
        raise error
    program = transpose_backward_rule(bwd, len(residuals), params["name"])
    return outs, expand_by_mask(eval_jaxpr(program, [*residuals, *drop_zeros(tangents)]),
                                map(_inexact, params["call_jaxpr"].out_avals))


def custom_vjp_call_linearize(trace: JVPTrace, primals: Sequence[Value], tangents: Sequence[Tangent],
                              **params: ParamValue) -> RuleResult:
    outs, residuals, bwd, specialize = _forward_pass(primals, tangents, params)
    n, name = len(residuals), params["name"]
    # Record a call whose transpose is the backward rule itself. Its forward meaning, the transposed backward rule, is
    # derived only if forward mode evaluates it. So for reverse mode the rule need not be linear.
    # `specialize` returns the program of the transpose for given cotangents: the transpose rule asks the rule for it.
    rule = prims.Rule(name, lambda: transpose_backward_rule(bwd, n, name), specialize=specialize)
    error = unbound_axes_error(bwd.jaxpr.axis_names, name)
    if error is not None:
        raise error
    found = bind(prims.transposed_call_p, *residuals, *drop_zeros(tangents), forward=rule, num_held=n, transpose_jaxpr=bwd)
    if trace.linear.count_once:
        found = [mean_over_replicas(t, typeof(o).varying_axes) for t, o in zip(found, [o for o in outs if _inexact(typeof(o))])]
    return outs, expand_by_mask(found, map(_inexact, params["call_jaxpr"].out_avals))


# --- transposed_call ----------------------------------------------------------------------------------------------
def _transposed_call(primals: Sequence[Value], tangents: Sequence[Tangent], linear: LinearRecorder, *,
                     forward: prims.Rule, num_held: int, transpose_jaxpr: ClosedJaxpr) -> RuleResult:
    if any(t is not None for t in tangents[:num_held]):  # not linear in the residuals: differentiate the program itself
        return run_jvp(lambda *xs: eval_jaxpr(forward.program(), xs), primals, tangents, linear)
    params = dict(forward=forward, num_held=num_held, transpose_jaxpr=transpose_jaxpr)
    outs = bind(prims.transposed_call_p, *primals, **params)
    if all(t is None for t in tangents):
        return outs, [None] * len(outs)
    given = [instantiate(t, p) for p, t in zip(primals[num_held:], tangents[num_held:])]
    return outs, list(bind(prims.transposed_call_p, *primals[:num_held], *given, **params))


# --- remat --------------------------------------------------------------------------------------------------------
def remat_jvp(primals: Sequence[Value], tangents: Sequence[Tangent], *, call_jaxpr: ClosedJaxpr,
              **params: ParamValue) -> RuleResult:
    push = jvp_program(call_jaxpr, tuple(t is not None for t in tangents))
    outs = call_program(prims.remat_p, push.program, [*primals, *drop_zeros(tangents)], **params)
    n = len(push.active_out)
    return outs[:n], expand_by_mask(outs[n:], push.active_out)


def remat_linearize(trace: JVPTrace, primals: Sequence[Value], tangents: Sequence[Tangent], *, call_jaxpr: ClosedJaxpr,
                    policy: Policy | None, **params: ParamValue) -> RuleResult:
    """Compute the results and the saved values; record one call that recomputes the other residuals."""
    params["policy"] = policy
    what = f"the checkpointed function `{params['name']}`"
    parts = recompute_program(call_jaxpr, tuple(t is not None for t in tangents), what, policy)
    outs = call_program(prims.remat_p, parts.known, primals, **params)
    n = len(parts.active_out)
    # Record one call on the saved values, operands and tangents that it reads. It repeats part of the first call, so
    # `differentiated` makes the lowering prevent the compiler from merging the two.
    given = [*outs[n:], *primals, *drop_zeros(tangents)]
    params["differentiated"] = True
    pushed = (bind(prims.remat_p, *[x for x, on in zip(given, parts.used) if on], call_jaxpr=parts.linear, **params)
              if any(parts.active_out) else ())
    return outs[:n], expand_by_mask(pushed, parts.active_out)


# --- custom_vmap_call: the batching rule of the derivative is the derivative of the batching rule -------------------
def _repeat_over_batch(x: Value, size: int) -> Value:
    """Broadcast `x` along a new batch axis at the front."""
    shape = typeof(x).shape
    return lax.broadcast_in_dim(x, (size, *shape), tuple(range(1, len(shape) + 1)))


def _jvp_of_rule(rule: Any, on: Sequence[bool], active_out: Sequence[bool], values: bool) -> prims.Rule:
    """Return the batching rule of the JVP: (operands, tangents of those `on`) -> (results, tangents of active ones).

    With `values=False` it returns the tangents only.
    """
    def call(size: int, batched: Sequence[bool], args: Sequence[Value]) -> tuple[list[Value], list[bool]]:
        n = len(on)
        primals, flags = list(args[:n]), list(batched[:n])
        tangents: list[Tangent] = []
        for i, pair in enumerate(expand_by_mask(zip(args[n:], batched[n:]), on)):
            t, t_batched = pair or (None, flags[i])
            # The rule takes one flag per operand, so a primal and its tangent are both batched, or both unbatched.
            if flags[i] != t_batched:
                if flags[i]:
                    t = _repeat_over_batch(t, size)
                else:
                    primals[i] = _repeat_over_batch(primals[i], size)
                flags[i] = True
            tangents.append(t)
        out_batched: list[bool] = []

        def run(*xs: Value) -> list[Value]:
            outs, out_batched[:] = rule.call(size, flags, xs)
            return list(outs)

        outs, found = run_jvp(run, primals, tangents)
        pushed = [instantiate(t, o) for o, t, a in zip(outs, found, active_out) if a]
        flagged = [b for b, a in zip(out_batched, active_out) if a]
        return ([*outs, *pushed], [*out_batched, *flagged]) if values else (pushed, flagged)

    return rule if rule.call is None else prims.Rule(rule.name, call=call)


def custom_vmap_call_jvp(primals: Sequence[Value], tangents: Sequence[Tangent], *, call_jaxpr: ClosedJaxpr, name: str,
                         num_consts: int, rule: prims.Rule) -> RuleResult:
    _check_constant_consts(prims.custom_vmap_call_p, name, tangents, num_consts)
    on = tuple(t is not None for t in tangents)
    push = jvp_program(call_jaxpr, on)
    outs = call_program(prims.custom_vmap_call_p, push.program, [*primals, *drop_zeros(tangents)], name=name,
                        num_consts=num_consts, rule=_jvp_of_rule(rule, on[num_consts:], push.active_out, True))
    n = len(push.active_out)
    return outs[:n], expand_by_mask(outs[n:], push.active_out)


def custom_vmap_call_linearize(trace: JVPTrace, primals: Sequence[Value], tangents: Sequence[Tangent], *,
                               call_jaxpr: ClosedJaxpr, name: str, num_consts: int, rule: prims.Rule) -> RuleResult:
    _check_constant_consts(prims.custom_vmap_call_p, name, tangents, num_consts)
    on = tuple(t is not None for t in tangents)
    # The linear part recomputes its residuals. Its batching rule is the derivative of the user's rule, which works on
    # the operands; residuals of the unbatched program would be useless to it.
    parts = recompute_program(call_jaxpr, on, f"the function `{name}` with a batching rule")
    outs = call_program(prims.custom_vmap_call_p, call_jaxpr, primals, name=name, num_consts=num_consts, rule=rule)
    if not any(parts.active_out):
        return outs, [None] * len(outs)
    pushed = bind(prims.custom_vmap_call_p, *primals, *drop_zeros(tangents),
                  call_jaxpr=_with_all_operands(parts, call_jaxpr, on), name=name, num_consts=num_consts,
                  rule=_jvp_of_rule(rule, on[num_consts:], parts.active_out, False))
    return outs, expand_by_mask(pushed, parts.active_out)


def _with_all_operands(parts: RecomputedProgram, call_jaxpr: ClosedJaxpr, on: Sequence[bool]) -> ClosedJaxpr:
    """Return `parts.linear` with arguments for all operands and active tangents, as its batching rule expects them."""
    def make() -> ClosedJaxpr:
        jaxpr = parts.linear.jaxpr
        rest = iter(jaxpr.invars)
        avals = [*call_jaxpr.in_avals, *[a.strip_weak_type() for a, o in zip(call_jaxpr.in_avals, on) if o]]
        invars = [next(rest) if u else Var(a) for a, u in zip(avals, parts.used)]
        return ClosedJaxpr(Jaxpr(jaxpr.constvars, invars, jaxpr.eqns, jaxpr.outvars, jaxpr.axis_names, jaxpr.effectful),
                           parts.linear.consts)

    return parts.linear.memo("wide", make)


def optimization_barrier_jvp(primals: Sequence[Value], tangents: Sequence[Tangent]) -> RuleResult:
    outs = bind(prims.optimization_barrier_p, *primals)
    given = drop_zeros(tangents)
    return outs, expand_by_mask(bind(prims.optimization_barrier_p, *given) if given else (), [t is not None for t in tangents])


jvp_rules.define(prims.custom_jvp_call_p, _make_rule(prims.custom_jvp_call_p, custom_jvp_call_jvp))
jvp_rules.define(prims.custom_vjp_call_p, _make_rule(prims.custom_vjp_call_p, custom_vjp_call_jvp, custom_vjp_call_linearize))
jvp_rules.define(prims.custom_vmap_call_p, _make_rule(prims.custom_vmap_call_p, custom_vmap_call_jvp,
                                                      custom_vmap_call_linearize))
jvp_rules.define(prims.transposed_call_p, LinearizeRule(
    lambda primals, tangents, **params: _transposed_call(primals, tangents, None, **params),
    lambda trace, primals, tangents, **params: _transposed_call(primals, tangents, trace.linear, **params)))
jvp_rules.define(prims.remat_p, _make_rule(prims.remat_p, remat_jvp, remat_linearize))
jvp_rules.define(prims.optimization_barrier_p, optimization_barrier_jvp)
