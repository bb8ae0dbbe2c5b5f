"""Find which results of a program depend on which arguments, from its equations, without tracing.

The answers are conservative: a flag is False only if there is certainly no dependence.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import CallbackRuleError, ClosedJaxpr, Eqn, Var, dtypes, happens_once
from lamina_ir.extend import Wired, backward, forward

from .rows import Slopes
from .tables import jvp_rules

__all__ = ["active_results", "needs", "reached_results", "reaches", "refuse_effects_twice"]

Flags = tuple[bool, ...]


def active_results(closed: ClosedJaxpr, active: Flags) -> Flags:
    """Return which results may have a tangent if the marked arguments have one."""
    return closed.derived(("active", active), lambda: _forward(closed, active, _active_eqn))


def reaches(closed: ClosedJaxpr, on: Flags) -> Flags:
    """Return which results depend on the marked arguments."""
    return closed.memo(("reaches", on), lambda: _forward(closed, on, _reached_eqn))


def needs(closed: ClosedJaxpr, wanted: Flags) -> Flags:
    """Return which arguments the marked results depend on."""
    def find() -> Flags:
        jaxpr = closed.jaxpr
        live: set[Any] = {v for v, w in zip(jaxpr.outvars, wanted) if w and isinstance(v, Var)}
        for e in reversed(jaxpr.eqns):
            if not live.isdisjoint(e.outvars):
                flow = e.primitive.flow
                if flow is None or not flow.operands:
                    live.update(v for v in e.invars if isinstance(v, Var))
                else:
                    inside = backward(Wired.of(e), [v in live for v in e.outvars], lambda wire, on: needs(wire.program, on))[0]
                    live.update(v for v, n in zip(e.invars, inside) if n and isinstance(v, Var))
        return tuple(v in live for v in jaxpr.invars)

    return closed.memo(("needs", wanted), find)


def _forward(closed: ClosedJaxpr, on: Flags, rule: Callable[[Eqn, set[Any]], Any]) -> Flags:
    jaxpr = closed.jaxpr
    found: set[Any] = {v for v, o in zip(jaxpr.invars, on) if o}
    for e in jaxpr.eqns:
        if not found.isdisjoint(e.invars):
            found.update(rule(e, found))
    return tuple([v in found for v in jaxpr.outvars])


def reached_results(prim: Any, params: dict[str, Any], on: Sequence[bool]) -> Flags | None:
    """Return which results of a primitive depend on the marked operands; None without a region signature: all may."""
    if prim.flow is None or not prim.flow.operands:
        return None
    return forward(Wired(prim, params, len(on)), on, lambda wire, marks: reaches(wire.program, marks))[1]


def _reached_eqn(e: Eqn, on: set[Any]) -> Any:
    if e.primitive.flow is None:
        return e.outvars
    found = reached_results(e.primitive, e.params, [v in on for v in e.invars])
    return e.outvars if found is None else [v for v, r in zip(e.outvars, found) if r]


def _active_eqn(e: Eqn, on: set[Any]) -> Any:
    rule, flow = jvp_rules.get(e.primitive), e.primitive.flow
    if type(rule) is Slopes and not any(v in on and f is not None for v, f in zip(e.invars, rule.derivatives)):
        return ()
    if flow is None or flow.whole or flow.rule:  # a custom rule may give a tangent to any result
        return [v for v in e.outvars if dtypes.is_inexact(v.aval.dtype)]
    marks = [v in on for v in e.invars]
    found = forward(Wired.of(e), marks, lambda wire, marks: active_results(wire.program, marks))[1]
    return [v for v, r in zip(e.outvars, found) if r]


def refuse_effects_twice(what: str, *programs: ClosedJaxpr) -> None:
    """Check that a derivative of `what` may run these programs a second time.

    Raises:
      CallbackRuleError: a program has an effect that must happen once; run again, it would repeat and its results could
        differ.
    """
    name = next((name for name in map(happens_once, programs) if name is not None), None)
    if name is not None:
        raise CallbackRuleError(f"derivative of {what}: it calls `{name}`, which must happen exactly once, but the linear part "
                                "recomputes everything in it. Call it outside and pass in its result; a pure_callback or "
                                "debug.callback may be called again")
