"""Calls with rules: custom derivatives run the rule's program, checkpointed calls split into now and again."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, Jaxpr, Var, dce, dtypes, prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, eval_jaxpr, typeof

from ..pullback import forward_of
from ..jvp import instantiate, run_jvp
from ..programs import jvp_program
from ..remat import recompute_program, run_program
from ..rows import Split
from ..tables import jvp_rules

__all__: list[str] = []


def _inexact(aval: Any) -> bool:
    return dtypes.is_inexact(aval.dtype)


def _no_derivative_of_consts(prim: Any, name: str, tangents: Sequence[Any], num_consts: int) -> None:
    if any(t is not None for t in tangents[:num_consts]):
        raise TypeError(f"{prim.name.removesuffix('_call')} of `{name}`: it closes over a value that is being differentiated, "
                        f"so its rule cannot give the derivative. Pass the value to `{name}` as an argument "
                        "(lamina.closure_convert finds such values), or wrap it in lax.stop_gradient")


def _spread(found: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Tangents of the inexact results; None for the others."""
    rest = iter(found)
    return [next(rest) if _inexact(a) else None for a in avals]


# --- custom_jvp_call ----------------------------------------------------------------------------------------------
def custom_jvp_call_jvp(primals: Any, tangents: Any, *, call_jaxpr: Any, jvp: Any, name: str, num_consts: int) -> Any:
    avals = call_jaxpr.out_avals
    if all(t is None for t in tangents):
        outs = run_program(prims.custom_jvp_call_p, call_jaxpr, primals, jvp=jvp, name=name, num_consts=num_consts)
        return outs, [None] * len(outs)
    _no_derivative_of_consts(prims.custom_jvp_call_p, name, tangents, num_consts)
    given = [instantiate(t, p) for p, t in zip(primals[num_consts:], tangents[num_consts:]) if _inexact(typeof(p))]
    outs = eval_jaxpr(jvp.program(), [*primals, *given])
    return outs[:len(avals)], _spread(outs[len(avals):], avals)


# --- custom_vjp_call ----------------------------------------------------------------------------------------------
def _forward_pass(primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
    """(results, residuals, which arguments are active, program of the backward rule for those)."""
    n = params["num_consts"]
    _no_derivative_of_consts(prims.custom_vjp_call_p, params["name"], tangents, n)
    count = len(params["call_jaxpr"].out_avals)
    outs = eval_jaxpr(params["fwd"].program(), primals)
    active = [t is not None for p, t in zip(primals[n:], tangents[n:]) if _inexact(typeof(p))]
    # It gives cotangents of all inexact arguments; `small` only those of the active ones.
    bwd = params["bwd"].program()
    small = bwd.memo(("active", tuple(active)), lambda: dce(bwd, active, instantiate=True)[0])
    return outs[:count], outs[count:], small


def custom_vjp_call_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    avals = params["call_jaxpr"].out_avals
    if all(t is None for t in tangents):
        outs = run_program(prims.custom_vjp_call_p, params["call_jaxpr"], primals,
                           **{k: v for k, v in params.items() if k != "call_jaxpr"})
        return outs, [None] * len(outs)
    outs, residuals, bwd = _forward_pass(primals, tangents, params)
    program = forward_of(bwd, len(residuals), params["name"])
    return outs, _spread(eval_jaxpr(program, [*residuals, *[t for t in tangents if t is not None]]), avals)


def custom_vjp_call_linearize(trace: Any, primals: Any, tangents: Any, **params: Any) -> Any:
    if all(t is None for t in tangents):
        return custom_vjp_call_jvp(primals, tangents, **params)
    outs, residuals, bwd = _forward_pass(primals, tangents, params)
    n, name = len(residuals), params["name"]
    # What is recorded transposes to the backward rule as it stands. Its own meaning, that rule transposed, is derived only
    # where somebody goes forwards, so the rule need not be linear for others.
    rule = prims.Rule(name, lambda: forward_of(bwd, n, name))
    found = bind(prims.transposed_call_p, *residuals, *[t for t in tangents if t is not None], forward=rule, num_held=n,
                 transpose_jaxpr=bwd)
    return outs, _spread(found, params["call_jaxpr"].out_avals)


# --- transposed_call ----------------------------------------------------------------------------------------------
def _transposed(primals: Any, tangents: Any, linear: Any, *, forward: Any, num_held: int, transpose_jaxpr: Any) -> Any:
    if any(t is not None for t in tangents[:num_held]):  # not linear in what it holds: through the program itself
        return run_jvp(lambda *xs: eval_jaxpr(forward.program(), xs), primals, tangents, linear)
    params = dict(forward=forward, num_held=num_held, transpose_jaxpr=transpose_jaxpr)
    outs = bind(prims.transposed_call_p, *primals, **params)
    if all(t is None for t in tangents):
        return outs, [None] * len(outs)
    given = [instantiate(t, p) for p, t in zip(primals[num_held:], tangents[num_held:])]
    return outs, list(bind(prims.transposed_call_p, *primals[:num_held], *given, **params))


# --- remat --------------------------------------------------------------------------------------------------------
def remat_jvp(primals: Any, tangents: Any, *, call_jaxpr: Any, **params: Any) -> Any:
    if all(t is None for t in tangents):
        outs = run_program(prims.remat_p, call_jaxpr, primals, **params)
        return outs, [None] * len(outs)
    push = jvp_program(call_jaxpr, tuple(t is not None for t in tangents))
    outs = run_program(prims.remat_p, push.program, [*primals, *[t for t in tangents if t is not None]], **params)
    rest = iter(outs[len(push.active_out):])
    return outs[:len(push.active_out)], [next(rest) if on else None for on in push.active_out]


def remat_linearize(trace: Any, primals: Any, tangents: Any, *, call_jaxpr: Any, policy: Any, **params: Any) -> Any:
    """Forwards: the results and what the policy keeps. In the linear program: one call that computes the rest again."""
    params["policy"] = policy
    if all(t is None for t in tangents):
        return remat_jvp(primals, tangents, call_jaxpr=call_jaxpr, **params)
    what = f"the checkpointed function `{params['name']}`"
    parts = recompute_program(call_jaxpr, tuple(t is not None for t in tangents), what, policy)
    outs = run_program(prims.remat_p, parts.known, primals, **params)
    n = len(parts.active_out)
    # Recorded: one call on kept values, operands and tangents, as far as it reads them. It repeats a part of the first one, so
    # compilers must not merge the two (`differentiated`).
    given = [*outs[n:], *primals, *[t for t in tangents if t is not None]]
    params["differentiated"] = True
    pushed = iter(bind(prims.remat_p, *[x for x, on in zip(given, parts.used) if on], call_jaxpr=parts.linear, **params)
                  if any(parts.active_out) else ())
    return outs[:n], [next(pushed) if on else None for on in parts.active_out]


# --- custom_vmap_call: the derivative's batching rule is the derivative of the batching rule ------------------------
def _repeat(x: Any, size: int) -> Any:
    shape = typeof(x).shape
    return lax.broadcast_in_dim(x, (size, *shape), tuple(range(1, len(shape) + 1)))


def _pushed_rule(rule: Any, on: Sequence[bool]) -> Any:
    """The batching rule of the forward derivative: (operands, active tangents) -> (results, tangents, None for zero)."""
    def call(size: int, batched: Sequence[bool], args: Sequence[Any]) -> Any:
        n = len(on)
        rest = iter(zip(args[n:], batched[n:]))
        primals, flags = list(args[:n]), list(batched[:n])
        tangents: list[Any] = []
        for i, active in enumerate(on):
            if not active:
                tangents.append(None)
                continue
            t, t_batched = next(rest)
            # The rule is told of one flag per operand: a value and its tangent both carry the batch, or neither.
            if flags[i] != t_batched:
                primals[i], t = (primals[i], _repeat(t, size)) if flags[i] else (_repeat(primals[i], size), t)
                flags[i] = True
            tangents.append(t)
        out_batched: list[bool] = []

        def run(*xs: Any) -> list[Any]:
            outs, out_batched[:] = rule(size, flags, xs)
            return list(outs)

        outs, found = run_jvp(run, primals, tangents)
        return outs, found, out_batched

    return call


def custom_vmap_call_jvp(primals: Any, tangents: Any, *, call_jaxpr: Any, name: str, num_consts: int, rule: Any) -> Any:
    params = dict(name=name, num_consts=num_consts)
    if all(t is None for t in tangents):
        outs = run_program(prims.custom_vmap_call_p, call_jaxpr, primals, rule=rule, **params)
        return outs, [None] * len(outs)
    _no_derivative_of_consts(prims.custom_vmap_call_p, name, tangents, num_consts)
    on = tuple(t is not None for t in tangents)
    push = jvp_program(call_jaxpr, on)
    base = _pushed_rule(rule.call, on[num_consts:]) if rule.call is not None else None

    def call(size: int, batched: Sequence[bool], args: Sequence[Any]) -> Any:
        outs, found, out_batched = base(size, batched, args)  # type: ignore[misc]
        kept = [(instantiate(t, o), b) for o, t, b, a in zip(outs, found, out_batched, push.active_out) if a]
        return [*outs, *[t for t, _ in kept]], [*out_batched, *[b for _, b in kept]]

    outs = run_program(prims.custom_vmap_call_p, push.program, [*primals, *[t for t in tangents if t is not None]],
                       rule=prims.Rule(rule.name, call=None if base is None else call), **params)
    rest = iter(outs[len(push.active_out):])
    return outs[:len(push.active_out)], [next(rest) if a else None for a in push.active_out]


def custom_vmap_call_linearize(trace: Any, primals: Any, tangents: Any, *, call_jaxpr: Any, name: str, num_consts: int,
                               rule: Any) -> Any:
    if all(t is None for t in tangents):
        return custom_vmap_call_jvp(primals, tangents, call_jaxpr=call_jaxpr, name=name, num_consts=num_consts, rule=rule)
    _no_derivative_of_consts(prims.custom_vmap_call_p, name, tangents, num_consts)
    on = tuple(t is not None for t in tangents)
    # The linear part computes again what it needs, so that its batching rule, the rule differentiated, can do the same:
    # residuals of the unbatched program would mean nothing to it.
    parts = recompute_program(call_jaxpr, on, f"the function `{name}` with a batching rule")
    outs = run_program(prims.custom_vmap_call_p, call_jaxpr, primals, name=name, num_consts=num_consts, rule=rule)
    base = _pushed_rule(rule.call, on[num_consts:]) if rule.call is not None else None
    given = [*primals, *[t for t in tangents if t is not None]]
    wide = _with_all_operands(parts, call_jaxpr, on)

    def call(size: int, batched: Sequence[bool], args: Sequence[Any]) -> Any:
        outs, found, out_batched = base(size, batched, args)  # type: ignore[misc]
        kept = [(instantiate(t, o), b) for o, t, b, a in zip(outs, found, out_batched, parts.active_out) if a]
        return [t for t, _ in kept], [b for _, b in kept]

    if not any(parts.active_out):
        return outs, [None] * len(outs)
    pushed = iter(bind(prims.custom_vmap_call_p, *given, call_jaxpr=wide, name=name, num_consts=num_consts,
                       rule=prims.Rule(rule.name, call=None if base is None else call)))
    return outs, [next(pushed) if a else None for a in parts.active_out]


def _with_all_operands(parts: Any, call_jaxpr: Any, on: Sequence[bool]) -> Any:
    """`parts.linear`, taking all operands and active tangents, so that a batching rule sees them all."""
    def make() -> Any:
        jaxpr = parts.linear.jaxpr
        rest = iter(jaxpr.invars)
        avals = [*call_jaxpr.in_avals, *[a.strong() for a, o in zip(call_jaxpr.in_avals, on) if o]]
        invars = [next(rest) if u else Var(a) for a, u in zip(avals, parts.used)]
        return ClosedJaxpr(Jaxpr(jaxpr.constvars, invars, jaxpr.eqns, jaxpr.outvars, jaxpr.axis_names, jaxpr.effectful),
                           parts.linear.consts)

    return parts.linear.memo("wide", make)


def optimization_barrier_jvp(primals: Any, tangents: Any) -> Any:
    outs = bind(prims.optimization_barrier_p, *primals)
    given = [t for t in tangents if t is not None]
    rest = iter(bind(prims.optimization_barrier_p, *given) if given else ())
    return outs, [None if t is None else next(rest) for t in tangents]


jvp_rules.define(prims.custom_jvp_call_p, custom_jvp_call_jvp)
jvp_rules.define(prims.custom_vjp_call_p, Split(custom_vjp_call_jvp, custom_vjp_call_linearize))
jvp_rules.define(prims.custom_vmap_call_p, Split(custom_vmap_call_jvp, custom_vmap_call_linearize))
jvp_rules.define(prims.transposed_call_p, Split(
    lambda primals, tangents, **params: _transposed(primals, tangents, None, **params),
    lambda trace, primals, tangents, **params: _transposed(primals, tangents, trace.linear, **params)))
jvp_rules.define(prims.remat_p, Split(remat_jvp, remat_linearize))
jvp_rules.define(prims.optimization_barrier_p, optimization_barrier_jvp)
