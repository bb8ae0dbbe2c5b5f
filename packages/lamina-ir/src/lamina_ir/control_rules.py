"""What dead-code elimination and partial evaluation do with `cond`, `while` and `scan`.

A carry is needed if it is read after the loop, or by anything that is needed inside; it is known if it starts known and
every step computes it from known values. Both are fixpoints over the loop's body.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .avals import ShapedArray, shaped
from .partial import partial_eval, partial_eval_rules
from .prims import control
from .prims.shape import broadcast_in_dim_p
from .program import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var
from .rewrite import dce, dce_rules

__all__: list[str] = []


def _pick(xs: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [x for x, f in zip(xs, flags, strict=True) if f]


def _bound(outvars: Sequence[Var], kept: Sequence[bool], used: Sequence[bool]) -> list[Var]:
    return [v if u or isinstance(v, DropVar) else DropVar(v.aval) for v, k, u in zip(outvars, kept, used) if k]


# --- dead code ----------------------------------------------------------------------------------------------------
def cond_dce(e: Eqn, used: list[bool]) -> Eqn:
    branches = e.params["branches"]
    needs = [b.memo(("dce", tuple(used)), lambda b=b: dce(b, used))[1] for b in branches]
    kept = [any(flags) for flags in zip(*needs)] if e.invars[1:] else []
    small = tuple(b.memo(("dce", tuple(used), tuple(kept)), lambda b=b: dce(b, used, instantiate=kept))[0]
                  for b in branches)
    return Eqn(e.primitive, [e.invars[0], *_pick(e.invars[1:], kept)], _bound(e.outvars, used, used),
               {**e.params, "branches": small}, e.source)


def while_dce(e: Eqn, used: list[bool]) -> Eqn:
    cond, body = e.params["cond_jaxpr"], e.params["body_jaxpr"]
    n_cond, n_body = e.params["cond_nconsts"], e.params["body_nconsts"]
    small_cond, needs_cond = dce(cond)
    carry = [u or c for u, c in zip(used, needs_cond[n_cond:])]
    while True:
        needs = dce(body, carry)[1]
        more = [c or n for c, n in zip(carry, needs[n_body:])]
        if more == carry:
            break
        carry = more
    small_cond, needs_cond = dce(cond, instantiate=[False] * n_cond + carry)
    small_body, needs = dce(body, carry, instantiate=[False] * n_body + carry)
    consts = [*needs_cond[:n_cond], *needs[:n_body]]
    params = {**e.params, "cond_jaxpr": small_cond, "body_jaxpr": small_body,
              "cond_nconsts": sum(needs_cond[:n_cond]), "body_nconsts": sum(needs[:n_body])}
    return Eqn(e.primitive, _pick(e.invars, consts + carry), _bound(e.outvars, carry, used), params, e.source)


def scan_dce(e: Eqn, used: list[bool]) -> Eqn:
    body, n_consts, n_carry = e.params["jaxpr"], e.params["num_consts"], e.params["num_carry"]
    carry, ys = used[:n_carry], used[n_carry:]
    while True:
        needs = dce(body, carry + ys)[1]
        more = [c or n for c, n in zip(carry, needs[n_consts:n_consts + n_carry])]
        if more == carry:
            break
        carry = more
    rest = len(body.jaxpr.invars) - n_consts - n_carry
    small, needs = dce(body, carry + ys, instantiate=[False] * n_consts + carry + [False] * rest)
    params = {**e.params, "jaxpr": small, "num_consts": sum(needs[:n_consts]), "num_carry": sum(carry)}
    return Eqn(e.primitive, _pick(e.invars, needs), _bound(e.outvars, carry + ys, used), params, e.source)


dce_rules[control.cond_p] = cond_dce
dce_rules[control.while_p] = while_dce
dce_rules[control.scan_p] = scan_dce


# --- partial evaluation -------------------------------------------------------------------------------------------
def _zeros(aval: ShapedArray, eqns: list[Eqn]) -> Atom:
    zero = Literal(np.zeros((), aval.dtype)[()], shaped((), aval.dtype, aval.weak_type))
    if not aval.shape:
        return zero
    v = Var(aval)
    eqns.append(Eqn(broadcast_in_dim_p, [zero], [v], {"broadcast_dimensions": (), "shape": aval.shape}))
    return v


def cond_split(e: Eqn, known: list[bool]) -> tuple[Eqn | None, Eqn | None]:
    """With a known index both stages choose the same branch; each branch's residuals are zeros in the others."""
    branches: tuple[ClosedJaxpr, ...] = e.params["branches"]
    if not known[0]:
        return None, e
    first = [partial_eval(b, known[1:]) for b in branches]
    late = [not all(flags) for flags in zip(*(s.out_known for s in first))]
    splits = [partial_eval(b, known[1:], instantiate=late) for b in branches]
    residuals = [a for s in splits for a in s.residuals]
    heads, tails, at, count = [], [], 0, sum(not f for f in late)
    for s in splits:
        own, jaxpr = len(s.residuals), s.known.jaxpr
        eqns = list(jaxpr.eqns)
        outs = [*jaxpr.outvars[:count], *(_zeros(a, eqns) for a in residuals[:at]), *jaxpr.outvars[count:],
                *(_zeros(a, eqns) for a in residuals[at + own:])]
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
    return (one if one.outvars else None), (two if two.outvars else None)


def scan_split(e: Eqn, known: list[bool]) -> tuple[Eqn | None, Eqn | None]:
    """Two scans: the first stacks its residuals for the second; those that are constants of the loop stay single."""
    p = e.params
    body, n_consts, n_carry = p["jaxpr"], p["num_consts"], p["num_carry"]
    n = n_consts + n_carry
    carry = known[n_consts:n]
    while True:
        flags = [*known[:n_consts], *carry, *known[n:]]
        still = [c and o for c, o in zip(carry, partial_eval(body, flags).out_known)]
        if still == carry:
            break
        carry = still
    late = [not c for c in carry] + [False] * (len(e.outvars) - n_carry)
    split = partial_eval(body, flags, instantiate=late)
    if not split.known.eqns:
        return None, e
    # residuals that are constants of the loop: the known program hands out its own input
    head, tail = split.known.jaxpr, split.unknown.jaxpr
    count = sum(split.out_known)
    given_consts = _pick(e.invars[:n_consts], flags[:n_consts])
    fixed = {id(v): a for v, a in zip(head.invars, given_consts)}
    single = [id(v) in fixed for v in head.outvars[count:]]
    single_args = [fixed[id(v)] for v in _pick(head.outvars[count:], single)]
    stacked = [not s for s in single]
    outs = [*head.outvars[:count], *_pick(head.outvars[count:], stacked)]
    between = [Var(shaped((p["length"], *a.shape), a.dtype, a.weak_type)) for a in _pick(split.residuals, stacked)]
    one = Eqn(e.primitive, _pick(e.invars, flags), [*_pick(e.outvars, split.out_known), *between],
              {**p, "jaxpr": ClosedJaxpr(Jaxpr(head.constvars, head.invars, head.eqns, outs), split.known.consts),
               "num_consts": sum(flags[:n_consts]), "num_carry": sum(carry)}, e.source)
    given, own = tail.invars[:len(single)], tail.invars[len(single):]
    unknown = [not f for f in flags]
    n_late = sum(unknown[:n])
    ins = [*_pick(given, single), *own[:n_late], *own[n_late:], *_pick(given, stacked)]
    two = Eqn(e.primitive, [*single_args, *_pick(e.invars, unknown), *between],
              _pick(e.outvars, [not k for k in split.out_known]),
              {**p, "jaxpr": ClosedJaxpr(Jaxpr(tail.constvars, ins, tail.eqns, tail.outvars), split.unknown.consts),
               "num_consts": sum(single) + sum(unknown[:n_consts]), "num_carry": sum(late)}, e.source)
    return one, (two if two.outvars else None)


partial_eval_rules[control.cond_p] = cond_split
partial_eval_rules[control.scan_p] = scan_split
