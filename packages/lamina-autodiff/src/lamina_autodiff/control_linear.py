"""Linearizing control flow: what runs now and leaves residuals behind, and the linear part that reads them.

`scan`: residuals that do not change in the loop are computed before it, the others are stacked. `cond`: residuals of
all branches share slots by type. A bounded `while`: carries are kept at every k-th iteration, and the linear part works
out each stretch of k again; with k near the square root of the bound, memory grows like that root.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import dce, dtypes, prims, shaped
from lamina_ir.program import ClosedJaxpr, DropVar, Eqn, Jaxpr, Var, eqn_effectful
from lamina_tracing import lax
from lamina_tracing.extend import bind, eval_jaxpr, stage

from .arrange import arrange, constant, picked, with_signature
from .dependence import active_results, settle_carry
from .jvp import instantiate
from .programs import linearize_program

__all__ = ["bounded_while", "cond_linearize", "joint", "scan_linearize"]

Flags = tuple[bool, ...]


# --- cond ---------------------------------------------------------------------------------------------------------
def joint(branches: Sequence[ClosedJaxpr], on: Flags) -> Flags:
    """Results that have a tangent in some branch."""
    return tuple([any(r) for r in zip(*[active_results(b, on) for b in branches])])


class _Branches(NamedTuple):
    known: tuple[ClosedJaxpr, ...]  # operands -> results, slots
    linear: tuple[ClosedJaxpr, ...]  # the operands in `direct`, slots, tangents -> tangents
    direct: tuple[int, ...]
    wanted: Flags


def _split_branches(branches: Sequence[ClosedJaxpr], on: Flags) -> _Branches:
    wanted = joint(branches, on)
    parts = [linearize_program(b, on, wanted) for b in branches]
    direct = tuple(sorted({i for p in parts for i in p.residual_from if i is not None}))
    slots: list[Any] = []  # types
    places = []  # per branch, the slot of each of its own residuals
    for p in parts:
        free, mine = list(range(len(slots))), []
        fresh = p.known.jaxpr.outvars[len(wanted):]
        for v in fresh:
            aval = v.aval.strong()
            k = next((k for k in free if slots[k] == aval), None)
            if k is None:
                k = len(slots)
                slots.append(aval)
            else:
                free.remove(k)
            mine.append(k)
        places.append(mine)
    known, linear = [], []
    for p, mine in zip(parts, places):
        outvars = p.known.jaxpr.outvars
        own = dict(zip(mine, outvars[len(wanted):]))
        eqns = list(p.known.jaxpr.eqns)
        # ones: harmless where a batched cond computes with what it will not select
        filled = [own[k] if k in own else constant(dtypes.is_inexact(a.dtype), a, eqns) for k, a in enumerate(slots)]
        known.append(with_signature(p.known, p.known.jaxpr.invars, [*outvars[:len(wanted)], *filled], eqns))
        invars = p.linear.jaxpr.invars
        n = len(p.residual_from)
        taken = {i: v for i, v in zip(p.residual_from, invars) if i is not None}
        stored = dict(zip(mine, [v for i, v in zip(p.residual_from, invars) if i is None]))
        operands = [taken[i] if i in taken else Var(branches[0].in_avals[i]) for i in direct]
        operands += [stored[k] if k in stored else Var(a) for k, a in enumerate(slots)]
        linear.append(with_signature(p.linear, [*operands, *invars[n:]], p.linear.jaxpr.outvars))
    return _Branches(tuple(known), tuple(linear), direct, wanted)


def cond_linearize(trace: Any, primals: list[Any], tangents: list[Any], *, branches: Any) -> Any:
    index, operands = primals[0], primals[1:]
    on = tuple([t is not None for t in tangents[1:]])
    if not any(on):
        outs = bind(prims.cond_p, *primals, branches=branches)
        return outs, [None] * len(outs)
    key = ("linear cond", on, tuple(map(id, branches)))
    split = branches[0].derived(key, lambda: (branches, _split_branches(branches, on)))[1]
    n = len(split.wanted)
    outs = bind(prims.cond_p, *primals, branches=split.known)
    if not any(split.wanted):
        return outs[:n], [None] * n
    pushed = iter(bind(prims.cond_p, index, *[operands[i] for i in split.direct], *outs[n:],
                       *[t for t in tangents[1:] if t is not None], branches=split.linear))
    return outs[:n], [next(pushed) if w else None for w in split.wanted]


# --- scan ---------------------------------------------------------------------------------------------------------
class _Loop(NamedTuple):
    before: ClosedJaxpr | None  # consts -> values that do not change
    known: ClosedJaxpr  # consts, those values, carry, xs -> carry, ys, stacked residuals
    linear: ClosedJaxpr  # fixed residuals, d consts, d carry, stacked residuals, d xs -> d carry, d ys
    fixed: tuple[tuple[bool, int], ...]  # (is it one of those values rather than a const, its number)
    stacked: tuple[tuple[bool, int], ...]  # (is it newly stacked rather than an operand, its number)
    carry: Flags
    ys: Flags


def _split_loop(jaxpr: ClosedJaxpr, on: Flags, num_consts: int, num_carry: int) -> _Loop:
    n = num_consts + num_carry
    consts, xs = on[:num_consts], on[n:]
    carry = settle_carry(active_results, jaxpr, consts, on[num_consts:n], xs)
    n_out = len(jaxpr.jaxpr.outvars)
    parts = linearize_program(jaxpr, consts + carry + xs, carry + (False,) * (n_out - num_carry))
    body = parts.known.jaxpr
    varying: set[Any] = set(body.invars[num_consts:])
    for e in body.eqns:
        if not varying.isdisjoint(e.invars) or eqn_effectful(e):
            varying.update(e.outvars)
    fresh = iter(body.outvars[n_out:])
    ahead: list[Any] = []  # variables computed before the loop
    new: list[Any] = []  # variables to stack
    fixed: list[tuple[bool, int]] = []
    stacked: list[tuple[bool, int]] = []
    fixed_numbers: list[int] = []
    stacked_numbers: list[int] = []
    for k, source in enumerate(parts.residual_from):
        v = next(fresh) if source is None else body.invars[source]
        if v in varying:
            stacked_numbers.append(k)
            if source is not None and source >= n:  # stacked already
                stacked.append((False, source))
            else:
                stacked.append((True, len(new)))
                new.append(v)
        else:
            fixed_numbers.append(k)
            if source is not None:
                fixed.append((False, source))
            else:
                fixed.append((True, len(ahead)))
                ahead.append(v)
    before = None
    if ahead:
        lead = ClosedJaxpr(Jaxpr(body.constvars, body.invars[:num_consts], _slice(body.eqns, ahead), ahead),
                           parts.known.consts)
        before = dce(lead, instantiate=True)[0]
        known = _without(parts.known, ahead, num_consts, [*body.outvars[:n_out], *new])
    else:
        known = with_signature(parts.known, body.invars, [*body.outvars[:n_out], *new])
    n_res = len(parts.residual_from)
    c, k, x = sum(consts), sum(carry), sum(xs)
    ins = [*fixed_numbers, *range(n_res, n_res + c + k), *stacked_numbers,
           *range(n_res + c + k, n_res + c + k + x)]
    linear = arrange(parts.linear, ins, range(sum(parts.active_out)))
    return _Loop(before, known, linear, tuple(fixed), tuple(stacked), carry, parts.active_out[num_carry:])


def scan_linearize(trace: Any, primals: list[Any], tangents: list[Any], *, jaxpr: Any, num_consts: int, num_carry: int,
                   **params: Any) -> Any:
    on = tuple([t is not None for t in tangents])
    if not any(on):
        outs = bind(prims.scan_p, *primals, jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry, **params)
        return outs, [None] * len(outs)
    loop = jaxpr.derived(("linear scan", on, num_consts, num_carry),
                         lambda: _split_loop(jaxpr, on, num_consts, num_carry))
    n = num_consts + num_carry
    n_out = num_carry + len(loop.ys)
    consts = primals[:num_consts]
    ahead = eval_jaxpr(loop.before, consts) if loop.before is not None else []
    outs = bind(prims.scan_p, *consts, *ahead, *primals[num_consts:], jaxpr=loop.known,
                num_consts=num_consts + len(ahead), num_carry=num_carry, **params)
    if not any(loop.carry) and not any(loop.ys):
        return outs[:n_out], [None] * n_out
    fixed = [ahead[i] if late else primals[i] for late, i in loop.fixed]
    stacked = [outs[n_out + i] if late else primals[i] for late, i in loop.stacked]
    dcarry = [instantiate(t, p) for t, p, c in zip(tangents[num_consts:n], primals[num_consts:n], loop.carry) if c]
    dconsts = [t for t in tangents[:num_consts] if t is not None]
    dxs = [t for t in tangents[n:] if t is not None]
    pushed = iter(bind(prims.scan_p, *fixed, *dconsts, *dcarry, *stacked, *dxs, jaxpr=loop.linear,
                       num_consts=len(fixed) + len(dconsts), num_carry=len(dcarry), **params))
    return outs[:n_out], [next(pushed) if on else None for on in loop.carry + loop.ys]


def _slice(eqns: Sequence[Eqn], wanted: Sequence[Any]) -> list[Eqn]:
    """The equations these variables depend on."""
    live, kept = set(wanted), []
    for e in reversed(eqns):
        if not live.isdisjoint(e.outvars):
            kept.append(e)
            live.update(v for v in e.invars if isinstance(v, Var))
    return kept[::-1]


def _without(closed: ClosedJaxpr, given: Sequence[Any], at: int, outvars: Sequence[Any]) -> ClosedJaxpr:
    """`closed` with variables it computes as arguments instead, put in at position `at`."""
    old, known = closed.jaxpr, set(given)
    eqns = []
    for e in old.eqns:
        if known.isdisjoint(e.outvars):
            eqns.append(e)
        elif not known.issuperset(e.outvars):
            eqns.append(e.replace(outvars=[DropVar(v.aval) if v in known else v for v in e.outvars]))
    made = with_signature(closed, [*old.invars[:at], *given, *old.invars[at:]], outvars, eqns)
    return dce(made, instantiate=True)[0]


# --- while with a bound -------------------------------------------------------------------------------------------
class _Bounded(NamedTuple):
    known: ClosedJaxpr  # cond consts, body consts, i, carry -> i, carry, i and carry before
    linear: ClosedJaxpr  # cond consts, body consts, d body consts, d carry, i, carry -> d carry
    passes: int


_I32 = shaped((), np.dtype("int32"))


def _bounded(cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, nc: int, nb: int, limit: int, consts: Flags,
             carry: Flags) -> _Bounded:
    """`limit` iterations at most, as `passes` stretches of `many`, each from a carry that is kept."""
    many = math.isqrt(max(limit - 1, 0)) + 1
    passes = -(-limit // many)
    n = nc + nb
    c_avals, b_avals, avals = cond_jaxpr.in_avals[:nc], body_jaxpr.in_avals[:nb], body_jaxpr.in_avals[nb:]

    def more(fixed: Sequence[Any], i: Any, state: Sequence[Any], end: Any) -> Any:
        truth, = eval_jaxpr(cond_jaxpr, [*fixed[:nc], *state])
        return lax.bitwise_and(truth, lax.lt(i, end))

    def test(end: Any, *args: Any) -> list[Any]:
        return [more(args[:nc], args[nc], args[nc + 1:], end)]

    def turn(*args: Any) -> list[Any]:
        return [lax.add(args[nb], np.int32(1)), *eval_jaxpr(body_jaxpr, [*args[:nb], *args[nb + 1:]])]

    def stretch(*args: Any) -> list[Any]:
        fixed, i, state = args[:n], args[n], args[n + 1:]
        end = lax.min(lax.add(i, np.int32(many)), np.int32(limit))
        outs = bind(prims.while_p, end, *fixed, i, *state, cond_jaxpr=condition, cond_nconsts=1 + nc,
                    body_jaxpr=counted, body_nconsts=nb, max_iters=many)
        return [*outs, i, *state]

    def step(*args: Any) -> list[Any]:
        """One iteration, or none once the condition is false."""
        fixed, i, state = args[:n], args[n], args[n + 1:]
        go = lax.convert_element_type(more(fixed, i, state, np.int32(limit)), _I32.dtype)
        return list(bind(prims.cond_p, go, *fixed, i, *state, branches=(stay, go_on)))

    def pushed(*args: Any) -> list[Any]:
        """The tangents over one stretch, worked out again from its first carry."""
        fixed, rest = args[:n], args[n:]
        dconsts, dcarry, (i, *state) = rest[:sum(consts)], rest[sum(consts):k], rest[k:]
        primals = [*fixed, i, *state]
        dc, ds = iter(dconsts), iter(dcarry)
        tangents = [None] * nc + [next(dc) if on else None for on in consts]
        tangents += [None, *[next(ds) if on else None for on in carry]]
        _, douts = scan_linearize(None, primals, tangents, jaxpr=single, length=many, reverse=False, unroll=1,
                                  num_consts=n, num_carry=1 + len(state))
        return [d for d, on in zip(douts[1:], carry) if on]

    def linear(*args: Any) -> list[Any]:
        go = more(args[:n], args[n + k], args[n + k + 1:], np.int32(limit))
        return list(bind(prims.cond_p, lax.convert_element_type(go, _I32.dtype), *args, branches=(same, whole)))

    k = sum(consts) + sum(carry)
    fixed_avals = [*c_avals, *b_avals]
    condition = _staged(test, [_I32, *c_avals, _I32, *avals])
    counted = _staged(turn, [*b_avals, _I32, *avals])
    go_on = _staged(lambda *args: turn(*args[nc:]), [*fixed_avals, _I32, *avals])
    stay = _staged(lambda *args: list(args[n:]), [*fixed_avals, _I32, *avals])
    single = _staged(step, [*fixed_avals, _I32, *avals])
    known = _staged(stretch, [*fixed_avals, _I32, *avals])
    tangent_avals = [a.strong() for a in [*picked(b_avals, consts), *picked(avals, carry)]]
    everything = [*fixed_avals, *tangent_avals, _I32, *avals]
    whole = _staged(pushed, everything)
    same = _staged(lambda *args: list(args[n + sum(consts):n + k]), everything)
    return _Bounded(known, _staged(linear, everything), passes)


def _staged(fun: Any, avals: Sequence[Any]) -> ClosedJaxpr:
    closed, outer = stage(fun, list(avals))
    assert not outer
    return closed


def bounded_while(primals: list[Any], tangents: list[Any], *, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int,
                  body_nconsts: int, max_iters: int) -> Any:
    """Linearize a loop of at most `max_iters` iterations with memory for about the square root of that many carries."""
    n = cond_nconsts + body_nconsts
    on = tuple([t is not None for t in tangents])
    consts = on[cond_nconsts:n]
    carry = settle_carry(active_results, body_jaxpr, consts, on[n:])
    if not any(carry) or max_iters == 0:
        outs = bind(prims.while_p, *primals, cond_jaxpr=cond_jaxpr, body_jaxpr=body_jaxpr, cond_nconsts=cond_nconsts,
                    body_nconsts=body_nconsts, max_iters=max_iters)
        return outs, tangents[n:] if max_iters == 0 else [None] * len(outs)
    key = ("bounded", id(cond_jaxpr), cond_nconsts, max_iters, consts, carry)
    made = body_jaxpr.derived(key, lambda: (cond_jaxpr, _bounded(cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts,
                                                                 max_iters, consts, carry)))[1]
    k = len(carry)
    common = {"length": made.passes, "reverse": False, "unroll": 1}
    outs = bind(prims.scan_p, *primals[:n], np.int32(0), *primals[n:], jaxpr=made.known, num_consts=n, num_carry=1 + k,
                **common)
    dconsts = picked(tangents[cond_nconsts:n], consts)
    dcarry = [instantiate(t, p) for t, p, c in zip(tangents[n:], primals[n:], carry) if c]
    pushed = iter(bind(prims.scan_p, *primals[:n], *dconsts, *dcarry, *outs[1 + k:], jaxpr=made.linear,
                       num_consts=n + len(dconsts), num_carry=len(dcarry), **common))
    return outs[1:1 + k], [next(pushed) if c else None for c in carry]
