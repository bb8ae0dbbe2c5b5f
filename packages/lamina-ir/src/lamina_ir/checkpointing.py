"""What a checkpointed program keeps, as two programs: one that hands out the values a policy chooses, one that takes them.

A policy looks into calls, branches, scans and bounded `while` loops. Values kept in the body of a loop are stacked.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from .avals import ShapedArray, shaped
from .control_rules import hoist_constants, zeros
from .primitive import Primitive
from .prims import control
from .prims.calls import xla_call_p
from .prims.custom import Offload, to_memory_p
from .prims.elementwise import convert_element_type_p
from .program import ClosedJaxpr, DropVar, Eqn, Jaxpr, Var, eqn_effectful
from .rewrite import inline_calls, rewrite

__all__ = ["Kept", "keep", "resume", "saved_p"]

# (value computed again, kept value): the kept one; its tangent is that of the computed one. Stands in `Kept.again` only.
saved_p = Primitive("saved", family="custom", infer=lambda computed, kept: computed, numpy=lambda computed, kept: kept)


class Kept(NamedTuple):
    """A program and what is kept of it.

    Attributes:
      forward: operands -> results, kept values.
      again: operands, kept values -> results; `saved` puts each kept value beside what it stands for.
    """

    forward: ClosedJaxpr
    again: ClosedJaxpr


def resume(program: ClosedJaxpr) -> Any:
    """The program with kept values instead of those they stand for; dead code goes afterwards."""
    return rewrite(program, lambda e: ([], [e.invars[1]]) if e.primitive is saved_p else None)


def keep(program: ClosedJaxpr, policy: Callable[..., Any] | None, only: Collection[int] | None = None) -> Kept:
    """Both programs for a policy.

    Args:
      program: of the checkpointed function.
      policy: called with a primitive, its operands' types and its params; says whether its results are kept. An
        `Offload` says that they are, in another memory. None keeps nothing.
      only: numbers of the values to keep, of those the policy chooses; default: all.
    """
    if policy is None:
        return Kept(program, program)
    return _Keeper(policy, only).program(inline_calls(rewrite(inline_calls(program), _without_constants)))


def _without_constants(e: Eqn) -> list[Eqn] | None:
    """A scan, and before it what its body computes from constants alone: that is kept once, not stacked."""
    if e.primitive is not control.scan_p or eqn_effectful(e):
        return None
    n = e.params["num_consts"]
    found = hoist_constants(e.params["jaxpr"], e.invars[:n], [True] * n)
    if found is None:
        return None
    before, body, consts = found
    return [before, Eqn(e.primitive, [*consts, *e.invars[n:]], e.outvars,
                        {**e.params, "jaxpr": body, "num_consts": len(consts)}, e.source)]


class _Pair(NamedTuple):
    """One equation, both ways, with what it keeps inside."""

    forward: list[Eqn]
    again: list[Eqn]
    out: list[Var]  # kept, bound in `forward`
    into: list[Var]  # the same, read in `again`


class _Keeper:
    def __init__(self, policy: Callable[..., Any], only: Collection[int] | None) -> None:
        self.policy, self.only, self.count = policy, only, 0

    def program(self, closed: ClosedJaxpr) -> Kept:
        jaxpr = closed.jaxpr
        first: list[Eqn] = []
        second: list[Eqn] = []
        out: list[Var] = []
        into: list[Var] = []
        for e in jaxpr.eqns:
            nested = _NESTED.get(e.primitive)
            pair = nested(self, e) if nested is not None and not eqn_effectful(e) else None
            if pair is None:
                pair = _Pair([e], [e], [], [])
            out += pair.out
            into += pair.into
            first += pair.forward
            second += pair.again
            if e.primitive is control.platform_index_p:  # known when lowered, if it stands beside the branches it chooses
                continue
            choice = self.policy(e.primitive, *[a.aval for a in e.invars], **e.params)
            if choice:
                self.mark(choice, first, second, out, into)
        ends = jaxpr.outvars
        return Kept(ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, first, [*ends, *out]), closed.consts),
                    ClosedJaxpr(Jaxpr(jaxpr.constvars, [*jaxpr.invars, *into], second, ends), closed.consts))

    def mark(self, choice: Any, first: list[Eqn], second: list[Eqn], out: list[Var], into: list[Var]) -> None:
        """Keep the results of the last equation."""
        last = second[-1]
        outvars = list(last.outvars)
        uses: list[Eqn] = []
        for i, v in enumerate(first[-1].outvars[:len(outvars)]):
            if isinstance(v, DropVar):
                continue
            self.count += 1
            if self.only is not None and self.count - 1 not in self.only:
                continue
            kept = Var(v.aval)
            into.append(kept)
            if isinstance(choice, Offload):
                away, back = Var(v.aval), Var(v.aval)
                first.append(Eqn(to_memory_p, [v], [away], {"memory_kind": choice.dst}))
                uses.append(Eqn(to_memory_p, [kept], [back], {"memory_kind": choice.src}))
                v, kept = away, back
            out.append(v)
            computed = Var(v.aval)
            uses.append(Eqn(saved_p, [computed, kept], [outvars[i]], {}))
            outvars[i] = computed
        second[-1] = Eqn(last.primitive, last.invars, outvars, last.params, last.source)
        second += uses


# --- equations with programs: None when nothing inside is kept ----------------------------------------------------
def _scan(keeper: _Keeper, e: Eqn) -> _Pair | None:
    body = e.params["jaxpr"]
    kept = keeper.program(body)
    avals = kept.forward.out_avals[len(body.out_avals):]
    if not avals:
        return None
    stacks = [shaped((e.params["length"], *a.shape), a.dtype, a.weak_type) for a in avals]
    out, into = list(map(Var, stacks)), list(map(Var, stacks))
    return _Pair([Eqn(e.primitive, e.invars, [*e.outvars, *out], {**e.params, "jaxpr": kept.forward}, e.source)],
                 [Eqn(e.primitive, [*e.invars, *into], e.outvars, {**e.params, "jaxpr": kept.again}, e.source)], out, into)


def _branches(kept: Sequence[Kept], count: int) -> tuple[list[ClosedJaxpr], list[ClosedJaxpr], list[ShapedArray]]:
    """Branches of one signature: kept values of one are zeros in the others."""
    own = [k.forward.out_avals[count:] for k in kept]
    avals = [a for some in own for a in some]
    forward, again = [], []
    at = 0
    for k, mine in zip(kept, own):
        jaxpr = k.forward.jaxpr
        eqns = list(jaxpr.eqns)
        outs = [*jaxpr.outvars[:count], *[zeros(a, eqns) for a in avals[:at]], *jaxpr.outvars[count:],
                *[zeros(a, eqns) for a in avals[at + len(mine):]]]
        forward.append(ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, outs), k.forward.consts))
        jaxpr = k.again.jaxpr
        n = len(jaxpr.invars) - len(mine)
        ins = [*jaxpr.invars[:n], *map(Var, avals[:at]), *jaxpr.invars[n:], *map(Var, avals[at + len(mine):])]
        again.append(ClosedJaxpr(Jaxpr(jaxpr.constvars, ins, jaxpr.eqns, jaxpr.outvars), k.again.consts))
        at += len(mine)
    return forward, again, avals


def _cond(keeper: _Keeper, e: Eqn) -> _Pair | None:
    forward, again, avals = _branches([keeper.program(b) for b in e.params["branches"]], len(e.outvars))
    if not avals:
        return None
    out, into = list(map(Var, avals)), list(map(Var, avals))
    return _Pair([Eqn(e.primitive, e.invars, [*e.outvars, *out], {"branches": tuple(forward)}, e.source)],
                 [Eqn(e.primitive, [*e.invars, *into], e.outvars, {"branches": tuple(again)}, e.source)], out, into)


def _while(keeper: _Keeper, e: Eqn) -> _Pair | None:
    """A bounded loop becomes a scan whose steps do nothing once the condition is false. One without a bound has nowhere
    to stack what is kept."""
    p = e.params
    if p["max_iters"] is None:
        return None
    body = keeper.program(p["body_jaxpr"])
    n, count = p["body_nconsts"], len(e.outvars)
    ins = list(map(Var, p["body_jaxpr"].in_avals))
    idle = ClosedJaxpr(Jaxpr([], ins, [], ins[n:]))
    (stay, on), (stay_again, on_again), avals = _branches([Kept(idle, idle), body], count)
    if not avals:
        return None
    single = [_step(p, stay, on, ()), _step(p, stay_again, on_again, avals)]
    stacks = [shaped((p["max_iters"], *a.shape), a.dtype, a.weak_type) for a in avals]
    out, into = list(map(Var, stacks)), list(map(Var, stacks))
    common = {"length": p["max_iters"], "num_carry": count, "num_consts": p["cond_nconsts"] + n, "reverse": False,
              "unroll": 1}
    return _Pair([Eqn(control.scan_p, e.invars, [*e.outvars, *out], {**common, "jaxpr": single[0]}, e.source)],
                 [Eqn(control.scan_p, [*e.invars, *into], e.outvars, {**common, "jaxpr": single[1]}, e.source)], out, into)


def _step(p: dict[str, Any], stay: ClosedJaxpr, go_on: ClosedJaxpr, given: Sequence[ShapedArray]) -> ClosedJaxpr:
    """cond consts, body consts, carry, `given` -> results of the branch that the condition chooses."""
    cond = p["cond_jaxpr"]
    n, m = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    ins = list(map(Var, [*cond.in_avals[:n], *stay.in_avals]))
    carry = ins[m:len(ins) - len(given)]
    truth, index = Var(cond.out_avals[0]), Var(shaped((), np.dtype("int32")))
    outs = list(map(Var, go_on.out_avals))
    eqns = [Eqn(xla_call_p, [*ins[:n], *carry], [truth],
                {"call_jaxpr": cond, "name": "condition", **xla_call_p.defaults}),
            Eqn(convert_element_type_p, [truth], [index], {"new_dtype": np.dtype("int32"), "weak_type": False}),
            Eqn(control.cond_p, [index, *ins[n:]], outs, {"branches": (stay, go_on)})]
    return ClosedJaxpr(Jaxpr([], ins, eqns, outs))


_NESTED = {control.scan_p: _scan, control.cond_p: _cond, control.while_p: _while}
