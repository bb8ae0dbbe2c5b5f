"""What depends on what inside a program, from its equations alone, nothing traced. Answers err on the safe side."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import dtypes
from lamina_ir.program import ClosedJaxpr, Eqn, Var

from .rows import Slopes
from .tables import jvp_rules

__all__ = ["active_results", "needs", "reached_results", "reaches", "settle_carry"]

Flags = tuple[bool, ...]


def active_results(closed: ClosedJaxpr, active: Flags) -> Flags:
    """Which results may have a tangent when these arguments have one."""
    return closed.derived(("active", active), lambda: _forward(closed, active, _active_eqn))


def reaches(closed: ClosedJaxpr, on: Flags) -> Flags:
    """Which results depend on these arguments."""
    return closed.memo(("reaches", on), lambda: _forward(closed, on, _reached_eqn))


def needs(closed: ClosedJaxpr, wanted: Flags) -> Flags:
    """Which arguments these results depend on."""
    def find() -> Flags:
        jaxpr = closed.jaxpr
        live: set[Any] = {v for v, w in zip(jaxpr.outvars, wanted) if w and isinstance(v, Var)}
        for e in reversed(jaxpr.eqns):
            if not live.isdisjoint(e.outvars):
                body = _call_body(e)
                if body is None:
                    live.update(v for v in e.invars if isinstance(v, Var))
                else:
                    inside = needs(body, tuple(v in live for v in e.outvars))
                    live.update(v for v, n in zip(e.invars, inside) if n and isinstance(v, Var))
        return tuple(v in live for v in jaxpr.invars)

    return closed.memo(("needs", wanted), find)


def _forward(closed: ClosedJaxpr, on: Flags, rule: Any) -> Flags:
    jaxpr = closed.jaxpr
    found: set[Any] = {v for v, o in zip(jaxpr.invars, on) if o}
    for e in jaxpr.eqns:
        if not found.isdisjoint(e.invars):
            found.update(rule(e, [v in found for v in e.invars]))
    return tuple(v in found for v in jaxpr.outvars)


def _call_body(e: Eqn) -> ClosedJaxpr | None:
    return e.params["call_jaxpr"] if e.primitive.name == "xla_call" else None


def _reached_eqn(e: Eqn, on: Sequence[bool]) -> Any:
    found = reached_results(e.primitive.name, e.params, tuple(on))
    return e.outvars if found is None else [v for v, r in zip(e.outvars, found) if r]


def reached_results(name: str, params: dict[str, Any], on: Flags) -> Flags | None:
    """Which results of a primitive depend on these operands; None where its programs do not tell: all of them may."""
    if "call_jaxpr" in params:
        return reaches(params["call_jaxpr"], on)
    if name == "cond" and not on[0]:
        return tuple([any(r) for r in zip(*[reaches(b, on[1:]) for b in params["branches"]])])
    if name == "scan":
        m = params["num_consts"]
        n = m + params["num_carry"]
        carry = settle_carry(reaches, params["jaxpr"], on[:m], on[m:n], on[n:])
        return carry + reaches(params["jaxpr"], on[:m] + carry + on[n:])[n - m:]
    if name == "while":
        m = params["cond_nconsts"]
        n = m + params["body_nconsts"]
        carry = settle_carry(reaches, params["body_jaxpr"], on[m:n], on[n:])
        if not any(reaches(params["cond_jaxpr"], on[:m] + carry)):
            return carry
    return None


def _active_eqn(e: Eqn, on: Sequence[bool]) -> Any:
    row = jvp_rules.get(e.primitive)
    if type(row) is Slopes and not any(o and f is not None for o, f in zip(on, row.fs)):
        return ()
    body = _call_body(e)
    if body is not None:
        return [v for v, r in zip(e.outvars, active_results(body, tuple(on))) if r]
    return [v for v in e.outvars if dtypes.is_inexact(v.aval.dtype)]


def settle_carry(analyse: Any, closed: ClosedJaxpr, consts: Flags, carry: Flags, xs: Flags = ()) -> Flags:
    """The carries of a loop body that `analyse` marks once marks have gone round as often as they can."""
    while True:
        out = analyse(closed, consts + carry + xs)
        new = tuple([a or b for a, b in zip(carry, out)])
        if new == carry:
            return carry
        carry = new
