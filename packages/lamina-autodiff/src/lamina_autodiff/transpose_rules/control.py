"""Transposes of control flow: a branch's transpose is chosen by the same index, a scan's runs the other way."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import UnboundedLoopError, dce, prims
from lamina_ir.program import ClosedJaxpr
from lamina_tracing import lax
from lamina_tracing.extend import bind, eval_jaxpr, stage

from ..arrange import picked, with_signature
from ..dependence import needs, reaches, settle_carry
from ..jvp import instantiate
from ..linear import is_linear
from ..programs import pull_back, transpose_program
from ..tables import transpose_rules

__all__: list[str] = []

Flags = tuple[bool, ...]


def cond_transpose(cts: list[Any], index: Any, *args: Any, branches: Any) -> Any:
    if is_linear(index):
        raise TypeError("linear_transpose: the predicate of a cond depends on the arguments, so the function is not "
                        "linear")
    linear = tuple([is_linear(a) for a in args])
    active = tuple([ct is not None for ct in cts])
    every = [needs(b, active) for b in branches]
    wanted = tuple([any(n) for n, on in zip(zip(*every), linear) if on])
    if not any(wanted):
        return [None] * (1 + len(args))
    back = tuple([transpose_program(b, linear, active, wanted).program for b in branches])
    outs = iter(bind(prims.cond_p, index, *[a for a in args if not is_linear(a)], *[ct for ct in cts if ct is not None],
                     branches=back))
    found = iter([next(outs) if w else None for w in wanted])
    return [None, *[next(found) if on else None for on in linear]]


def scan_transpose(cts: list[Any], *args: Any, jaxpr: Any, length: int, reverse: bool, unroll: int, num_consts: int,
                   num_carry: int) -> Any:
    """The cotangents of the carry run back through the loop; those of consts are summed on the way."""
    n = num_consts + num_carry
    given = tuple([is_linear(a) for a in args])
    consts, xs = given[:num_consts], given[n:]
    carry = settle_carry(reaches, jaxpr, consts, given[num_consts:n], xs)
    linear = consts + carry + xs
    ys_on = tuple([ct is not None for ct in cts[num_carry:]])
    carry_on = tuple([ct is not None and c for ct, c in zip(cts, carry)])
    while True:
        needed = tuple([m and on for m, on in zip(needs(jaxpr, carry_on + ys_on), linear)])
        new = tuple([a or b for a, b in zip(carry_on, needed[num_consts:n])])
        if new == carry_on:
            break
        carry_on = new
    consts_on, xs_on = needed[:num_consts], needed[n:]
    held_consts = [a for a, on in zip(args, consts) if not on]
    held_xs = [a for a, on in zip(args[n:], xs) if not on]
    if not all(carry):  # counters and the like: run them first
        held_xs = _run_ahead(jaxpr, linear, num_consts, num_carry, held_consts, args, held_xs,
                             {"length": length, "reverse": reverse, "unroll": unroll})
    avals = jaxpr.in_avals
    sums = [a.strong() for a, on in zip(avals, consts_on) if on]
    states = [a.strong() for a, on in zip(avals[num_consts:n], carry_on) if on]
    key = ("transposed scan", linear, num_consts, num_carry, carry_on, ys_on)
    body = jaxpr.derived(key, lambda: _backward(jaxpr, linear, num_consts, num_carry, carry_on, ys_on, consts_on, xs_on,
                                                len(held_consts), sums, states))
    start = [instantiate(None, a) for a in sums]
    start += [instantiate(ct, a) for ct, a, on in zip(cts, avals[num_consts:n], carry_on) if on]
    outs = bind(prims.scan_p, *held_consts, *start, *held_xs, *[ct for ct in cts[num_carry:] if ct is not None],
                jaxpr=body, length=length, reverse=not reverse, unroll=unroll, num_consts=len(held_consts),
                num_carry=len(start))
    found = iter(outs)
    back = [next(found) if on else None for on in consts_on + carry_on]
    back = [b if on else None for b, on in zip(back, given)]
    back += [next(found) if on else None for on in xs_on]
    return back[0] if len(args) == 1 else back


def _backward(jaxpr: ClosedJaxpr, linear: Flags, num_consts: int, num_carry: int, carry_on: Flags, ys_on: Flags,
              consts_on: Flags, xs_on: Flags, n_held: int, sums: Sequence[Any], states: Sequence[Any]) -> ClosedJaxpr:
    """held consts, sums, carry cotangents, held xs, ys cotangents -> sums, carry cotangents, xs cotangents."""
    n = num_consts + num_carry
    avals = jaxpr.in_avals
    flags = consts_on + carry_on + xs_on
    late = [a for a, on in zip(avals[num_consts:], linear[num_consts:]) if not on]
    later = [a.strong() for a in picked(jaxpr.out_avals[num_carry:], ys_on)]
    # held carries come stacked behind the held xs; the body wants them before
    n_carry = sum(not on for on in linear[num_consts:n])
    late = late[n_carry:] + late[:n_carry]

    def run(*args: Any) -> list[Any]:
        held, args = args[:n_held], args[n_held:]
        totals, args = args[:len(sums)], args[len(sums):]
        state, args = iter(args[:len(states)]), args[len(states):]
        slices, ys = args[:len(late)], iter(args[len(late):])
        n_xs = len(late) - n_carry
        cts = [next(state) if on else None for on in carry_on] + [next(ys) if on else None for on in ys_on]
        found = iter(pull_back(jaxpr, linear, [*held, *slices[n_xs:], *slices[:n_xs]], cts))
        back = [instantiate(ct, a) if on else None for ct, a, on in
                zip([next(found) if lin else None for lin in linear], avals, flags)]
        added = [lax.add(t, b) for t, b in zip(totals, [b for b in back[:num_consts] if b is not None])]
        return added + [b for b in back[num_consts:] if b is not None]

    held_avals = [a for a, on in zip(avals[:num_consts], linear) if not on]
    closed, outer = stage(run, [*held_avals, *sums, *states, *late, *later])
    assert not outer
    return closed


def _run_ahead(jaxpr: ClosedJaxpr, linear: Flags, num_consts: int, num_carry: int, held_consts: Sequence[Any],
               args: Sequence[Any], held_xs: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The loop of the carries that do not depend on linear values; `held_xs` and each such carry, stacked."""
    n = num_consts + num_carry
    invars, outvars = jaxpr.jaxpr.invars, jaxpr.jaxpr.outvars
    kept = [i for i in range(num_consts, n) if not linear[i]]
    takes = [i for i, on in enumerate(linear) if not on]
    rest = with_signature(jaxpr, invars, [outvars[i - num_consts] for i in kept] + [invars[i] for i in kept])
    small, _ = dce(rest, instantiate=[not on for on in linear])
    assert len(small.jaxpr.invars) == len(takes)
    outs = bind(prims.scan_p, *held_consts, *[args[i] for i in kept], *held_xs, jaxpr=small,
                num_consts=len(held_consts), num_carry=len(kept), **params)
    return [*held_xs, *outs[len(kept):]]


def while_transpose(cts: list[Any], *args: Any, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int,
                    max_iters: int | None) -> Any:
    """A bounded loop is a scan of steps that do nothing once the condition is false."""
    n, k = cond_nconsts + body_nconsts, len(cts)
    if max_iters is not None:
        key = ("steps", id(cond_jaxpr), cond_nconsts)
        single = body_jaxpr.memo(key, lambda: (cond_jaxpr, _step(cond_jaxpr, body_jaxpr, cond_nconsts, n)))[1]
        return scan_transpose(cts, *args, jaxpr=single, length=max_iters, reverse=False, unroll=1, num_consts=n,
                              num_carry=k)
    where = body_jaxpr.memo("source", lambda: None)
    at = f" at {where}" if where is not None else ""
    raise UnboundedLoopError(
        f"reverse derivative of the while_loop{at}: the number of iterations is not known before the loop has run, so "
        "there is no telling how much to remember. Bound it with while_loop(..., max_iters=n), use fori_loop with "
        "bounds that are Python integers, or scan; forward derivatives (jvp, jacfwd) work as it is")


def _step(cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int, n: int) -> ClosedJaxpr:
    """cond consts, body consts, carry -> carry: one iteration while the condition holds."""
    avals = [*cond_jaxpr.in_avals[:cond_nconsts], *body_jaxpr.in_avals]
    stay = stage(lambda *xs: list(xs[n:]), avals)[0]
    go_on = stage(lambda *xs: eval_jaxpr(body_jaxpr, xs[cond_nconsts:]), avals)[0]

    def step(*xs: Any) -> list[Any]:
        truth, = eval_jaxpr(cond_jaxpr, [*xs[:cond_nconsts], *xs[n:]])
        return list(bind(prims.cond_p, lax.convert_element_type(truth, np.dtype("int32")), *xs, branches=(stay, go_on)))

    return stage(step, avals)[0]


transpose_rules.define(prims.cond_p, cond_transpose)
transpose_rules.define(prims.scan_p, scan_transpose)
transpose_rules.define(prims.while_p, while_transpose)
transpose_rules.hole(prims.platform_index_p, "it has no operand")
