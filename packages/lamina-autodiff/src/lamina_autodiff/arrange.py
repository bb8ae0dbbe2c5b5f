"""Programs with the same equations and other arguments and results: what loops and branches are put together from."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import prims
from lamina_ir.avals import ShapedArray
from lamina_ir.program import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from lamina_tracing.extend import scalar

__all__ = ["arrange", "constant", "note_source", "picked", "with_signature"]


def with_signature(closed: ClosedJaxpr, invars: Sequence[Any], outvars: Sequence[Any],
                   eqns: Sequence[Eqn] | None = None) -> ClosedJaxpr:
    """`closed` with other argument variables, results and perhaps equations."""
    old = closed.jaxpr
    return ClosedJaxpr(Jaxpr(old.constvars, invars, old.eqns if eqns is None else eqns, outvars,
                             old.axis_names if eqns is None else None, old.effectful if eqns is None else None),
                       closed.consts)


def arrange(closed: ClosedJaxpr, ins: Sequence[int | ShapedArray], outs: Sequence[int]) -> ClosedJaxpr:
    """`closed` with its arguments and results in another order; a type among `ins` is an argument nobody reads."""
    def make() -> ClosedJaxpr:
        invars, outvars = closed.jaxpr.invars, closed.jaxpr.outvars
        return with_signature(closed, [invars[i] if isinstance(i, int) else Var(i) for i in ins],
                              [outvars[i] for i in outs])

    return closed.memo(("arrange", tuple(ins), tuple(outs)), make)


def constant(value: float, aval: ShapedArray, eqns: list[Eqn]) -> Any:
    """An atom for an array filled with `value`; its equation, if it needs one, goes to `eqns`."""
    literal = Literal(scalar(value, aval.dtype), ShapedArray((), aval.dtype))
    if not aval.shape:
        return literal
    var = Var(aval.strong())
    eqns.append(Eqn(prims.broadcast_in_dim_p, (literal,), (var,), {"shape": aval.shape, "broadcast_dimensions": ()}))
    return var


def picked(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """The values whose flag is set."""
    return [v for v, on in zip(values, flags) if on]


def note_source(new: ClosedJaxpr, old: ClosedJaxpr) -> ClosedJaxpr:
    """`new`, which remembers that it comes from the source line of `old`."""
    new.memo("source", lambda: old.memo("source", lambda: None))
    return new
