"""Find which results of a program depend on which arguments, from its equations, without tracing.

The answers are conservative: a flag is False only if there is certainly no dependence.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lamina_ir import Atom, CallbackRuleError, ClosedJaxpr, dtypes, Eqn, find_unrepeatable_effect, Primitive, Var
from lamina_ir.extend import RegionView, propagate_backward, propagate_forward
from lamina_ir.typing import Params

from .rule_kinds import ElementwiseJVP
from .rule_tables import jvp_rules

__all__ = ["check_no_repeated_effects", "find_active_results", "find_dependent_eqn_results", "find_dependent_results",
           "find_needed_args"]

Flags = tuple[bool, ...]


def find_active_results(closed: ClosedJaxpr, active: Flags) -> Flags:
    """Return which results may have a tangent if the marked arguments have one."""
    return closed.memo_with_settings(("active", active), lambda: _forward(closed, active, _active_eqn))


def find_dependent_results(closed: ClosedJaxpr, on: Flags) -> Flags:
    """Return which results depend on the marked arguments."""
    return closed.memo(("reaches", on), lambda: _forward(closed, on, _reached_eqn))


def find_needed_args(closed: ClosedJaxpr, wanted: Flags) -> Flags:
    """Return which arguments the marked results depend on."""
    def find() -> Flags:
        jaxpr = closed.jaxpr
        live: set[Atom] = {v for v, w in zip(jaxpr.outvars, wanted) if w and isinstance(v, Var)}
        for e in reversed(jaxpr.eqns):
            # Backward, for the same reason.
            if not live.isdisjoint(e.outvars):
                flow = e.primitive.region_signature
                if flow is None or not flow.operands:
                    live.update(v for v in e.invars if isinstance(v, Var))
                else:
                    inside = propagate_backward(RegionView.of(e), [v in live for v in e.outvars],
                                                lambda region, on: find_needed_args(region.program, on))[0]
                    live.update(v for v, n in zip(e.invars, inside) if n and isinstance(v, Var))
        return tuple(v in live for v in jaxpr.invars)

    return closed.memo(("needs", wanted), find)


def _forward(closed: ClosedJaxpr, on: Flags, rule: Callable[[Eqn, set[Atom]], Iterable[Atom]]) -> Flags:
    jaxpr = closed.jaxpr
    found: set[Atom] = {v for v, o in zip(jaxpr.invars, on) if o}
    for e in jaxpr.eqns:
        # Forward in program order: an equation reads only variables bound before it, so one pass suffices.
        if not found.isdisjoint(e.invars):
            found.update(rule(e, found))
    return tuple([v in found for v in jaxpr.outvars])


def find_dependent_eqn_results(prim: Primitive, params: Params, on: Sequence[bool]) -> Flags | None:
    """Return which results of a primitive depend on the marked operands; None without a region signature: all may."""
    if prim.region_signature is None or not prim.region_signature.operands:
        return None
    return propagate_forward(RegionView(prim, params, len(on)), on,
                             lambda region, marks: find_dependent_results(region.program, marks))[1]


def _reached_eqn(e: Eqn, on: set[Atom]) -> Iterable[Atom]:
    if e.primitive.region_signature is None:
        return e.outvars
    found = find_dependent_eqn_results(e.primitive, e.params, [v in on for v in e.invars])
    return e.outvars if found is None else [v for v, r in zip(e.outvars, found) if r]


def _active_eqn(e: Eqn, on: set[Atom]) -> Iterable[Atom]:
    rule, flow = jvp_rules.get(e.primitive), e.primitive.region_signature
    # A derivative of None is zero, as that of `floor`. So the result has no tangent, although it depends.
    if type(rule) is ElementwiseJVP and not any(v in on and f is not None for v, f in zip(e.invars, rule.derivatives)):
        return ()
    if flow is None or flow.indivisible or flow.jvp_rule:  # a custom rule may give a tangent to any result
        return [v for v in e.outvars if dtypes.is_inexact(v.aval.dtype)]
    marks = [v in on for v in e.invars]
    found = propagate_forward(RegionView.of(e), marks, lambda wire, marks: find_active_results(wire.program, marks))[1]
    return [v for v, r in zip(e.outvars, found) if r]


def check_no_repeated_effects(what: str, *programs: ClosedJaxpr) -> None:
    """Check that a derivative of `what` may run these programs a second time.

    Raises:
      CallbackRuleError: a program has an effect that must happen once; run again, it would repeat and its results could
        differ.
    """
    name = next((name for name in map(find_unrepeatable_effect, programs) if name is not None), None)
    if name is not None:
        raise CallbackRuleError(f"derivative of {what}: it calls `{name}`, which must happen exactly once, but the linear part "
                                "recomputes everything in it. Call it outside and pass in its result; a pure_callback or "
                                "debug.callback may be called again")
