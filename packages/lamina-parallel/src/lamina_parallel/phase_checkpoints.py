"""Programs whose phases, over axes that run in turns, are checkpoints.

So the derivative keeps what phases read, and computes again what they make of it. In the program that is compiled phases stand
open, and with them those of calls that hold collectives.
"""
from __future__ import annotations

from typing import Any

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, eqn_axis_names, inline_calls, prims, rewrite
from lamina_ir.extend import narrow, stack_depth

from .phases import Names, cut_at, program_of, reads_of

__all__ = ["opened", "with_checkpoints"]


def with_checkpoints(closed: ClosedJaxpr, names: Names) -> ClosedJaxpr:
    """A program of one position whose phases, over axes that run in turns, are checkpoints.

    Args:
      closed: the program.
      names: the axes that run in turns.
    Returns:
      A program.

    >>> from lamina_ir import parse
    >>> text = ("{ lambda ; a:f32[]{i}. let b:f32[]{i} = sin a c:f32[] = psum[axes=('i',) axis_index_groups=None] b "
    ...         "d:f32[]{i} = cos b e:f32[]{i} = mul d c in (e,) }")
    >>> [e.primitive.name for e in with_checkpoints(parse(text), frozenset("i")).eqns]
    ['remat', 'psum', 'remat']
    """
    with stack_depth.roomy():
        def holds(e: Eqn) -> bool:
            return not names.isdisjoint(eqn_axis_names(e))

        if any(map(holds, closed.jaxpr.eqns)):
            closed = inline_calls(closed, holds)
        cut = cut_at(closed, names, False)
        eqns = list(cut.between[0])
        for k, (mine, outs, after) in enumerate(zip(cut.inside, cut.kept(closed.jaxpr.outvars), cut.between[1:])):
            if mine:
                ins = reads_of(mine)
                eqns.append(Eqn(prims.remat_p, ins, outs, {
                    "call_jaxpr": program_of(mine, ins, outs), "differentiated": False, "name": f"phase {k}", "policy": None,
                    "prevent_cse": False}))
            eqns += after
        return ClosedJaxpr(Jaxpr(closed.jaxpr.constvars, closed.jaxpr.invars, eqns, closed.jaxpr.outvars), closed.consts)


_CALLS = frozenset([prims.xla_call_p, prims.remat_p, prims.custom_jvp_call_p, prims.custom_vjp_call_p])


def opened(closed: ClosedJaxpr, names: Names) -> ClosedJaxpr:
    """The program with the calls in their place that hold collectives over the axes, whatever derivatives or rules they have.
    Of a checkpoint the phases are checkpoints."""
    def holds(e: Eqn) -> bool:
        return e.primitive in _CALLS and not names.isdisjoint(eqn_axis_names(e))

    mine: set[Any] = set()

    def as_call(e: Eqn) -> list[Eqn] | None:
        if not holds(e):
            return None
        body = e.params["call_jaxpr"]
        body = with_checkpoints(body, names) if e.primitive is prims.remat_p else body
        mine.add(body)
        params = {**prims.xla_call_p.defaults, "call_jaxpr": body, "name": e.params["name"]}
        return [e.replace(primitive=prims.xla_call_p, params=params)]

    if any(map(holds, closed.jaxpr.eqns)):
        closed = inline_calls(rewrite(closed, as_call, nested=holds), lambda e: e.params["call_jaxpr"] in mine)
    return _without_copies(closed)


def _without_copies(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program whose checkpoints do not give what they are given, nor one value twice: all would be kept once more."""
    same: dict[Any, Any] = {}  # result -> what it is
    eqns: list[Eqn] = []
    for e in closed.jaxpr.eqns:
        if same:
            e = e.replace(invars=[a if type(a) is Literal else same.get(a, a) for a in e.invars])
        if e.primitive is prims.remat_p:
            inner = e.params["call_jaxpr"].jaxpr
            known = dict(zip(inner.invars, e.invars))
            for a, v in zip(inner.outvars, e.outvars):
                found = a if type(a) is Literal else known.setdefault(a, v)
                if found is not v and found.aval == v.aval:
                    same[v] = found
            if not same.keys().isdisjoint(e.outvars):
                e = narrow(e, [v not in same for v in e.outvars])
        eqns += [e] if e.outvars else []
    if not same:
        return closed
    jaxpr = closed.jaxpr
    outs = [a if type(a) is Literal else same.get(a, a) for a in jaxpr.outvars]
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, outs), closed.consts)
