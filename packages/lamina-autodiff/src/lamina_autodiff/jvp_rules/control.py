"""Forward rows of control flow: the derivative of a loop or branch is one whose body has tangents beside its values.

Carries get a tangent if any iteration gives them one; the rest of the program keeps to what has one.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import prims
from lamina_tracing.extend import bind

from .. import control_linear
from ..arrange import arrange, note_source, picked
from ..dependence import active_results, settle_carry
from ..jvp import instantiate
from ..programs import jvp_program
from ..rows import Split
from ..tables import jvp_rules, zero_jvp

__all__: list[str] = []


def _on(tangents: Sequence[Any]) -> tuple[bool, ...]:
    return tuple([t is not None for t in tangents])


def _held(values: Sequence[Any], tangents: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """The tangents of flagged values, zeros included."""
    return [instantiate(t, v) for v, t, on in zip(values, tangents, flags) if on]


def cond_jvp(primals: list[Any], tangents: list[Any], *, branches: Any) -> Any:
    on = _on(tangents)[1:]
    if not any(on):
        outs = bind(prims.cond_p, *primals, branches=branches)
        return outs, [None] * len(outs)
    wanted = control_linear.joint(branches, on)
    pushed = tuple([jvp_program(b, on, wanted).program for b in branches])
    outs = bind(prims.cond_p, *primals, *picked(tangents[1:], on), branches=pushed)
    rest = iter(outs[len(wanted):])
    return outs[:len(wanted)], [next(rest) if w else None for w in wanted]


def scan_jvp(primals: list[Any], tangents: list[Any], *, jaxpr: Any, num_consts: int, num_carry: int,
             **params: Any) -> Any:
    on, n = _on(tangents), num_consts + num_carry
    if not any(on):
        outs = bind(prims.scan_p, *primals, jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry, **params)
        return outs, [None] * len(outs)
    consts, xs = on[:num_consts], on[n:]
    carry = settle_carry(active_results, jaxpr, consts, on[num_consts:n], xs)
    flags = consts + carry + xs
    n_ys = len(jaxpr.jaxpr.outvars) - num_carry
    push = jvp_program(jaxpr, flags, carry + (False,) * n_ys)
    ins, at = [], len(flags)
    for lo, hi in ((0, num_consts), (num_consts, n), (n, len(flags))):
        active = sum(flags[lo:hi])
        ins += [*range(lo, hi), *range(at, at + active)]
        at += active
    outs_on, first = sum(carry), num_carry + n_ys
    order = [*range(num_carry), *range(first, first + outs_on), *range(num_carry, first),
             *range(first + outs_on, first + sum(push.active_out))]
    outs = bind(prims.scan_p, *primals[:num_consts], *picked(tangents[:num_consts], consts), *primals[num_consts:n],
                *_held(primals[num_consts:n], tangents[num_consts:n], carry), *primals[n:], *picked(tangents[n:], xs),
                jaxpr=arrange(push.program, ins, order), num_consts=num_consts + sum(consts),
                num_carry=num_carry + outs_on, **params)
    dcarry = iter(outs[num_carry:num_carry + outs_on])
    ys = outs[num_carry + outs_on:]
    dys = iter(ys[n_ys:])
    douts = [next(dcarry) if c else None for c in carry]
    return [*outs[:num_carry], *ys[:n_ys]], douts + [next(dys) if y else None for y in push.active_out[num_carry:]]


def while_jvp(primals: list[Any], tangents: list[Any], *, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int,
              body_nconsts: int, max_iters: int | None = None) -> Any:
    n = cond_nconsts + body_nconsts
    consts = _on(tangents)[cond_nconsts:n]
    carry = settle_carry(active_results, body_jaxpr, consts, _on(tangents)[n:])
    if not any(carry):
        outs = bind(prims.while_p, *primals, cond_jaxpr=cond_jaxpr, body_jaxpr=body_jaxpr, cond_nconsts=cond_nconsts,
                    body_nconsts=body_nconsts, max_iters=max_iters)
        return outs, [None] * len(outs)
    push = jvp_program(body_jaxpr, consts + carry, carry)
    k, first = len(carry), body_nconsts + len(carry)
    some = sum(consts)
    ins = [*range(body_nconsts), *range(first, first + some), *range(body_nconsts, first),
           *range(first + some, first + some + sum(carry))]
    body = note_source(arrange(push.program, ins, range(k + sum(carry))), body_jaxpr)
    extra = [a.strong() for a in picked(body_jaxpr.out_avals, carry)]
    condition = arrange(cond_jaxpr, [*range(cond_nconsts + k), *extra], (0,))
    outs = bind(prims.while_p, *primals[:n], *picked(tangents[cond_nconsts:n], consts), *primals[n:],
                *_held(primals[n:], tangents[n:], carry), cond_jaxpr=condition, cond_nconsts=cond_nconsts,
                body_jaxpr=body, body_nconsts=body_nconsts + some, max_iters=max_iters)
    rest = iter(outs[k:])
    return outs[:k], [next(rest) if c else None for c in carry]


def while_linearize(trace: Any, primals: list[Any], tangents: list[Any], **params: Any) -> Any:
    """A bounded loop is remembered at few places. Of another one the linear part is the whole loop over again, which
    can be pushed through and not pulled back."""
    if params["max_iters"] is not None:
        return control_linear.bounded_while(primals, tangents, **params)
    if all(t is None for t in tangents):
        return while_jvp(primals, tangents, **params)
    outs = bind(prims.while_p, *primals, **params)
    return outs, while_jvp(primals, tangents, **params)[1]


jvp_rules.define(prims.cond_p, Split(cond_jvp, control_linear.cond_linearize))
jvp_rules.define(prims.scan_p, Split(scan_jvp, control_linear.scan_linearize))
jvp_rules.define(prims.while_p, Split(while_jvp, while_linearize))
zero_jvp(prims.platform_index_p)
