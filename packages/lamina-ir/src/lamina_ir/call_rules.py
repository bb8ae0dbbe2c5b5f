"""What partial evaluation does with calls: `xla_call`, `remat` and `custom_jvp_call` become two calls each.

A `custom_vjp_call` stays whole: its backward rule turns the cotangents of all results at once into those of all
operands, so there is no telling which part of it belongs to one result. So does a `custom_vmap_call`, whose rule is a
Python function of all operands, and a `transposed_call`, which is known by the transpose of the whole map only.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import dtypes
from .checkpointing import keep, resume
from .partial import partial_eval, partial_eval_rules
from .prims import calls, custom
from .program import ClosedJaxpr, DropVar, Eqn, Var
from .rewrite import dce
from .rule import Rule

__all__: list[str] = []


def _pick(xs: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [x for x, f in zip(xs, flags, strict=True) if f]


def call_split(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """`xla_call` as two calls: the first hands residuals of the body to the second."""
    body: ClosedJaxpr = e.params["call_jaxpr"]
    split = body.memo(("partial_eval", tuple(known)), lambda: partial_eval(body, known))
    if not split.known.eqns and not any(split.out_known):
        return [], [e]
    donated = e.params["donated_invars"] or (False,) * len(known)
    unknown = [not k for k in known]
    residuals = [Var(a) for a in split.residuals]
    one = Eqn(e.primitive, _pick(e.invars, known), [*_pick(e.outvars, split.out_known), *residuals],
              {**e.params, "call_jaxpr": split.known, "donated_invars": ()}, e.source)
    late = _pick(donated, unknown)
    two = Eqn(e.primitive, [*residuals, *_pick(e.invars, unknown)], _pick(e.outvars, [not k for k in split.out_known]),
              {**e.params, "call_jaxpr": split.unknown,
               "donated_invars": (False,) * len(residuals) + tuple(late) if any(late) else ()}, e.source)
    return [one], [two] if two.outvars else []


def remat_split(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """The first call gives the known results, and the known values that the policy keeps. The second computes everything
    else it needs again, from the known operands."""
    body, policy = e.params["call_jaxpr"], e.params["policy"]
    count = len(body.out_avals)
    kept = keep(body, policy)
    at_hand = partial_eval(kept.forward, known).out_known
    if not all(at_hand[count:]):
        kept = keep(body, policy, only=[i for i, k in enumerate(at_hand[count:]) if k])
        at_hand = partial_eval(kept.forward, known).out_known
    done = at_hand[:count]
    ins = len(known)
    again, used = dce(resume(kept.again), [not d for d in done])
    needed = used[ins:]
    wanted = [*done, *needed]
    if not any(wanted):
        return [], [e]
    split = partial_eval(kept.forward, known, instantiate=[not w for w in wanted])
    first = dce(split.known, [i < sum(wanted) for i in range(len(split.known.out_avals))], instantiate=True)[0]
    between = [Var(a) for a in first.out_avals[sum(done):]]
    ones = [Eqn(e.primitive, _pick(e.invars, known), [*_pick(e.outvars, done), *between], {**e.params, "call_jaxpr": first},
                e.source)]
    if all(done):
        return ones, []
    repeats = any(u and k for u, k in zip(used, known)) or bool(between)
    params = {**e.params, "call_jaxpr": again, "differentiated": e.params["differentiated"] or repeats}
    return ones, [Eqn(e.primitive, [*_pick(e.invars, used[:ins]), *between], _pick(e.outvars, [not d for d in done]), params,
                      e.source)]


def custom_jvp_split(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """Two calls, each with its part of the rule. The call stays whole where the rule of a known result reads an unknown
    operand, and where the rule is not known."""
    body, n = e.params["call_jaxpr"], e.params["num_consts"]
    done = partial_eval(body, known).out_known
    if not any(done):
        return [], [e]
    inexact = [dtypes.is_inexact(a.dtype) for a in body.in_avals[n:]]
    moved = [dtypes.is_inexact(a.dtype) for a in body.out_avals]
    at_hand = [*known, *_pick(known[n:], inexact)]
    try:
        rule = e.params["jvp"].program()
    except Exception:  # dropped when the program was printed or saved, or wrong: it will say so when it is used
        return [], [e]
    if not all(f for f, d in zip(partial_eval(rule, at_hand).out_known, [*done, *_pick(done, moved)]) if d):
        return [], [e]

    def part(program: ClosedJaxpr, flags: Sequence[bool], ins: Sequence[bool]) -> ClosedJaxpr:
        if all(ins):
            return dce(program, flags, instantiate=True)[0]
        split = partial_eval(program, ins, instantiate=[not f for f in flags])
        return dce(split.known, [i < sum(flags) for i in range(len(split.known.out_avals))], instantiate=True)[0]

    def call(flags: Sequence[bool], ins: Sequence[bool]) -> Eqn:
        both, tangents = [*flags, *_pick(flags, moved)], [*ins, *_pick(ins[n:], inexact)]
        params = {**e.params, "call_jaxpr": part(body, flags, ins), "num_consts": sum(ins[:n]),
                  "jvp": Rule(e.params["jvp"].name, lambda: part(rule, both, tangents))}
        return Eqn(e.primitive, _pick(e.invars, ins), _pick(e.outvars, flags), params, e.source)

    rest = [not d and not isinstance(v, DropVar) for d, v in zip(done, e.outvars)]
    return [call(done, known)], [call(rest, [True] * len(known))] if any(rest) else []


partial_eval_rules[calls.xla_call_p] = call_split
partial_eval_rules[custom.remat_p] = remat_split
partial_eval_rules[custom.custom_jvp_call_p] = custom_jvp_split
