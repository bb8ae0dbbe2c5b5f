"""What dead-code elimination and partial evaluation do with `cond`, `while` and `scan`.

A carry is needed if it is read after the loop, or by anything that is needed inside; it is known if it starts known and
every step computes it from known values. Both are fixpoints over the loop's body.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .avals import ShapedArray, shaped
from .partial import PartialEval, partial_eval, partial_eval_rules
from .prims import control
from .prims.calls import xla_call_p
from .prims.shape import broadcast_in_dim_p
from .program import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var
from .rewrite import dce, dce_rules, narrowed

__all__ = ["hoist_constants", "zeros"]


def _pick(xs: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [x for x, f in zip(xs, flags, strict=True) if f]


def _bound(outvars: Sequence[Var], kept: Sequence[bool], used: Sequence[bool]) -> list[Var]:
    return [v if u or isinstance(v, DropVar) else DropVar(v.aval) for v, k, u in zip(outvars, kept, used) if k]


# --- dead code ----------------------------------------------------------------------------------------------------
def cond_dce(e: Eqn, used: list[bool]) -> Eqn:
    branches = e.params["branches"]
    needs = [narrowed(b, used)[1] for b in branches]
    kept = [any(flags) for flags in zip(*needs)] if e.invars[1:] else []
    small = tuple(narrowed(b, used, kept)[0] for b in branches)
    if all(s is b for s, b in zip(small, branches)):
        return e
    return Eqn(e.primitive, [e.invars[0], *_pick(e.invars[1:], kept)], _bound(e.outvars, used, used),
               {**e.params, "branches": small}, e.source)


def while_dce(e: Eqn, used: list[bool]) -> Eqn:
    cond, body = e.params["cond_jaxpr"], e.params["body_jaxpr"]
    n_cond, n_body = e.params["cond_nconsts"], e.params["body_nconsts"]
    needs_cond = narrowed(cond, [True])[1]
    carry = [u or c for u, c in zip(used, needs_cond[n_cond:])]
    while True:
        needs = narrowed(body, carry)[1]
        more = [c or n for c, n in zip(carry, needs[n_body:])]
        if more == carry:
            break
        carry = more
    small_cond, needs_cond = narrowed(cond, [True], [False] * n_cond + carry)
    small_body, needs = narrowed(body, carry, [False] * n_body + carry)
    if small_cond is cond and small_body is body and all(used):
        return e
    consts = [*needs_cond[:n_cond], *needs[:n_body]]
    params = {**e.params, "cond_jaxpr": small_cond, "body_jaxpr": small_body,
              "cond_nconsts": sum(needs_cond[:n_cond]), "body_nconsts": sum(needs[:n_body])}
    return Eqn(e.primitive, _pick(e.invars, consts + carry), _bound(e.outvars, carry, used), params, e.source)


def scan_dce(e: Eqn, used: list[bool]) -> Eqn:
    body, n_consts, n_carry = e.params["jaxpr"], e.params["num_consts"], e.params["num_carry"]
    carry, ys = used[:n_carry], used[n_carry:]
    while True:
        needs = narrowed(body, carry + ys)[1]
        more = [c or n for c, n in zip(carry, needs[n_consts:n_consts + n_carry])]
        if more == carry:
            break
        carry = more
    rest = len(body.jaxpr.invars) - n_consts - n_carry
    small, needs = narrowed(body, carry + ys, [False] * n_consts + carry + [False] * rest)
    if small is body and all(used):
        return e
    params = {**e.params, "jaxpr": small, "num_consts": sum(needs[:n_consts]), "num_carry": sum(carry)}
    return Eqn(e.primitive, _pick(e.invars, needs), _bound(e.outvars, carry + ys, used), params, e.source)


dce_rules[control.cond_p] = cond_dce
dce_rules[control.while_p] = while_dce
dce_rules[control.scan_p] = scan_dce


# --- partial evaluation -------------------------------------------------------------------------------------------
def zeros(aval: ShapedArray, eqns: list[Eqn]) -> Atom:
    """An atom for zeros; its equation, if it needs one, goes to `eqns`."""
    zero = Literal(np.zeros((), aval.dtype)[()], shaped((), aval.dtype, aval.weak_type))
    if not aval.shape:
        return zero
    v = Var(aval)
    eqns.append(Eqn(broadcast_in_dim_p, [zero], [v], {"broadcast_dimensions": (), "shape": aval.shape}))
    return v


def split_body(body: ClosedJaxpr, known: Sequence[bool]) -> PartialEval:
    return body.memo(("partial_eval", tuple(known)), lambda: partial_eval(body, known))


def known_results(body: ClosedJaxpr, known: Sequence[bool], wanted: Sequence[bool]) -> ClosedJaxpr:
    """What gives the wanted results, all of them known, from the known operands."""
    split = partial_eval(body, known, instantiate=[not w for w in wanted])
    return dce(split.known, [i < sum(wanted) for i in range(len(split.known.out_avals))], instantiate=True)[0]


def hoist_constants(body: ClosedJaxpr, args: Sequence[Atom],
                    known: Sequence[bool]) -> tuple[Eqn, ClosedJaxpr, list[Any]] | None:
    """What a loop computes anew in each iteration from known constants, before the loop.

    Args:
      body: its leading operands are the constants.
      args: the constants.
      known: which of them are.
    Returns:
      (equation for before the loop, the body on other constants, these constants), or None if there is nothing to gain.
    """
    flags = [*known, *[False] * (len(body.in_avals) - len(known))]
    split = body.memo(("hoisted", tuple(flags)), lambda: partial_eval(body, flags, instantiate=True))
    if not split.known.eqns:
        return None
    head, tail = split.known.jaxpr, split.unknown
    given = dict(zip(head.invars, _pick(args, known)))
    made = {a: Var(a.aval) for a in head.outvars if a not in given}
    before = ClosedJaxpr(Jaxpr(head.constvars, head.invars, head.eqns, list(made)), split.known.consts)
    call = Eqn(xla_call_p, _pick(args, known), list(made.values()),
               {"call_jaxpr": before, "name": "loop_constants", **xla_call_p.defaults})
    return call, tail, [*(given.get(a) or made[a] for a in head.outvars), *_pick(args, [not k for k in known])]


def cond_split(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """With a known index both stages choose the same branch; each branch's residuals are zeros in the others."""
    branches: tuple[ClosedJaxpr, ...] = e.params["branches"]
    if not known[0]:
        return [], [e]
    first = [split_body(b, known[1:]) for b in branches]
    late = [not all(flags) for flags in zip(*(s.out_known for s in first))]
    splits = [partial_eval(b, known[1:], instantiate=late) for b in branches]
    residuals = [a for s in splits for a in s.residuals]
    heads, tails, at, count = [], [], 0, sum(not f for f in late)
    for s in splits:
        own, jaxpr = len(s.residuals), s.known.jaxpr
        eqns = list(jaxpr.eqns)
        outs = [*jaxpr.outvars[:count], *(zeros(a, eqns) for a in residuals[:at]), *jaxpr.outvars[count:],
                *(zeros(a, eqns) for a in residuals[at + own:])]
        heads.append(ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, outs), s.known.consts))
        jaxpr = s.unknown.jaxpr
        ins = [*map(Var, residuals[:at]), *jaxpr.invars[:own], *map(Var, residuals[at + own:]), *jaxpr.invars[own:]]
        tails.append(ClosedJaxpr(Jaxpr(jaxpr.constvars, ins, jaxpr.eqns, jaxpr.outvars), s.unknown.consts))
        at += own
    between = [Var(a) for a in residuals]
    one = Eqn(e.primitive, _pick(e.invars, known), [*_pick(e.outvars, [not f for f in late]), *between],
              {**e.params, "branches": tuple(heads)}, e.source)
    two = Eqn(e.primitive, [e.invars[0], *between, *_pick(e.invars[1:], [not k for k in known[1:]])],
              _pick(e.outvars, late), {**e.params, "branches": tuple(tails)}, e.source)
    return [one] if one.outvars else [], [two] if two.outvars else []


def while_split(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """With a known condition the first stage runs the loop of the known carries. The second runs the loop that the others
    need, from the start: known carries among them are computed once more, since a loop without a known length has
    nowhere to stack them. Where the condition waits for the second stage, so does the loop."""
    p = e.params
    cond, body, n_cond = p["cond_jaxpr"], p["body_jaxpr"], p["cond_nconsts"]
    n = n_cond + p["body_nconsts"]
    carry = known[n:]
    while True:
        flags = [*known[n_cond:n], *carry]
        still = [c and o for c, o in zip(carry, split_body(body, flags).out_known)]
        if still == carry:
            break
        carry = still
    in_cond = [*known[:n_cond], *carry]
    ones: list[Eqn] = []
    if any(carry) and split_body(cond, in_cond).out_known[0]:
        params = {**p, "cond_jaxpr": known_results(cond, in_cond, [True]),
                  "body_jaxpr": known_results(body, flags, carry),
                  "cond_nconsts": sum(known[:n_cond]), "body_nconsts": sum(known[n_cond:n])}
        ones.append(while_dce(Eqn(e.primitive, _pick(e.invars, [*known[:n], *carry]), _pick(e.outvars, carry), params,
                                  e.source), [True] * sum(carry)))
        if all(carry):
            return ones, []
        given = {id(a) for a, k in zip(e.invars, known) if k}
        e = while_dce(e, [not c for c in carry])
    else:
        given = {id(a) for a, k in zip(e.invars, known) if k}
    at = e.params["cond_nconsts"]
    end = at + e.params["body_nconsts"]
    consts = e.invars[at:end]
    hoisted = hoist_constants(e.params["body_jaxpr"], consts, [id(a) in given for a in consts])
    if hoisted is not None:
        before, body, consts = hoisted
        ones.append(before)
        e = Eqn(e.primitive, [*e.invars[:at], *consts, *e.invars[end:]], e.outvars,
                {**e.params, "body_jaxpr": body, "body_nconsts": len(consts)}, e.source)
    return ones, [e]


def scan_split(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """Two scans: the first stacks its residuals for the second. What is computed from known constants alone is computed
    before both and handed over once."""
    p = e.params
    body, n_consts, n_carry = p["jaxpr"], p["num_consts"], p["num_carry"]
    ones: list[Eqn] = []
    hoisted = hoist_constants(body, e.invars[:n_consts], known[:n_consts])
    if hoisted is not None:
        before, body, consts = hoisted
        ones.append(before)
        given = len(consts) - known[:n_consts].count(False)
        known = [*[True] * given, *[False] * (len(consts) - given), *known[n_consts:]]
        e = Eqn(e.primitive, [*consts, *e.invars[n_consts:]], e.outvars,
                {**p, "jaxpr": body, "num_consts": len(consts)}, e.source)
        p, n_consts = e.params, len(consts)
    n = n_consts + n_carry
    carry = known[n_consts:n]
    while True:
        flags = [*known[:n_consts], *carry, *known[n:]]
        still = [c and o for c, o in zip(carry, split_body(body, flags).out_known)]
        if still == carry:
            break
        carry = still
    late = [not c for c in carry] + [False] * (len(e.outvars) - n_carry)
    split = partial_eval(body, flags, instantiate=late)
    if not split.known.eqns and not any(split.out_known):
        return ones, [e]
    head, tail = split.known.jaxpr, split.unknown.jaxpr
    count = sum(split.out_known)
    fixed = {id(v): a for v, a in zip(head.invars, _pick(e.invars[:n_consts], flags[:n_consts]))}
    single = [id(v) in fixed for v in head.outvars[count:]]
    single_args = [fixed[id(v)] for v in _pick(head.outvars[count:], single)]
    stacked = [not s for s in single]
    outs = [*head.outvars[:count], *_pick(head.outvars[count:], stacked)]
    between = [Var(shaped((p["length"], *a.shape), a.dtype, a.weak_type)) for a in _pick(split.residuals, stacked)]
    ones.append(Eqn(e.primitive, _pick(e.invars, flags), [*_pick(e.outvars, split.out_known), *between],
                    {**p, "jaxpr": ClosedJaxpr(Jaxpr(head.constvars, head.invars, head.eqns, outs), split.known.consts),
                     "num_consts": sum(flags[:n_consts]), "num_carry": sum(carry)}, e.source))
    given_vars, own = tail.invars[:len(single)], tail.invars[len(single):]
    unknown = [not f for f in flags]
    ins = [*_pick(given_vars, single), *own, *_pick(given_vars, stacked)]
    two = Eqn(e.primitive, [*single_args, *_pick(e.invars, unknown), *between],
              _pick(e.outvars, [not k for k in split.out_known]),
              {**p, "jaxpr": ClosedJaxpr(Jaxpr(tail.constvars, ins, tail.eqns, tail.outvars), split.unknown.consts),
               "num_consts": sum(single) + sum(unknown[:n_consts]), "num_carry": sum(late)}, e.source)
    return ones, [two] if two.outvars else []


partial_eval_rules[control.cond_p] = cond_split
partial_eval_rules[control.while_p] = while_split
partial_eval_rules[control.scan_p] = scan_split
