"""Over which mapped axes the values of a program differ, and what must not hang on such a value.

A value is marked with the names of the axes over which its members may hold different numbers: those of mapped operands,
and of `axis_index`. Marks go with dependence, through nested programs too; sums, extremes and gathers over all of an axis
take its name away. A branch or a loop with collectives over an axis must run for all members of it or for none, or those
that run it wait for the others for ever: what decides must not be marked with that axis.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import prims
from .errors import ProgramError
from .primitive import Primitive
from .program import ClosedJaxpr, Eqn, Literal, eqn_axis_names, subprograms
from .wiring import Wire, Wired, forward

__all__ = ["varying"]

Axes = frozenset[Any]
_NONE: Axes = frozenset()


def varying(closed: ClosedJaxpr, marks: Sequence[Axes], bound: Axes) -> tuple[Axes, ...]:
    """For each result of a program, the mapped axes over which it may differ.

    Args:
      closed: the program of one member.
      marks: for each argument, the axes over which it differs.
      bound: all axes in force.
    Returns:
      A frozenset of axis names for each result.
    Raises:
      ProgramError: members of an axis would take different branches, or numbers of turns, with collectives over it.

    >>> from lamina_ir.program import Jaxpr, Var
    >>> from lamina_ir import aval_of
    >>> x, y = Var(aval_of(1.0)), Var(aval_of(1.0))
    >>> total = Eqn(prims.psum_p, [x], [y], {"axes": ("i",), "axis_index_groups": None})
    >>> i = frozenset(["i"])
    >>> [sorted(v) for v in varying(ClosedJaxpr(Jaxpr([], [x], [total], [x, y])), [i], i)]
    [['i'], []]
    """
    marks = tuple(marks)
    return closed.memo(("varying", marks, bound), lambda: _walk(closed, marks, bound))


def _walk(closed: ClosedJaxpr, marks: Sequence[Axes], bound: Axes) -> tuple[Axes, ...]:
    jaxpr = closed.jaxpr
    known: dict[Any, Axes] = dict(zip(jaxpr.invars, marks))

    def read(v: Any) -> Axes:
        return _NONE if isinstance(v, Literal) else known.get(v, _NONE)

    for e in jaxpr.eqns:
        found = _through(e, [read(v) for v in e.invars], bound)
        known.update((v, m) for v, m in zip(e.outvars, found) if m)
    return tuple([read(v) for v in jaxpr.outvars])


def _through(e: Eqn, marks: list[Axes], bound: Axes) -> Sequence[Axes]:
    p = e.primitive
    if p.flow is not None and p.flow.operands:
        return _nested(e, marks, bound)
    total = _NONE.union(*marks)
    if p.axis_params:
        total = _COLLECTIVES.get(p, _mixed)(total, eqn_axis_names(e), e.params)
    elif p.effectful or p is prims.rng_uniform_p:  # each member asks for itself
        total = bound
    return [total] * len(e.outvars)


def _nested(e: Eqn, marks: list[Axes], bound: Axes) -> Sequence[Axes]:
    w, flow = Wired.of(e), e.primitive.flow
    if flow.binds:  # type: ignore[union-attr]
        return _mapped(e, w, marks, bound)
    marks, found = forward(w, marks, lambda wire, ms: varying(wire.program, ms, bound))  # type: ignore[assignment]
    if w.chooser is not None:
        _agree(e, marks[w.chooser], w.bodies, "which branch runs")
    if flow.test:  # type: ignore[union-attr]
        test = w.wires[0]
        truth, = varying(test.program, [marks[i] for i in test.ins], bound)
        _agree(e, truth, w.wires, "the number of turns")
    return found


def _mapped(e: Eqn, w: Wired, marks: list[Axes], bound: Axes) -> list[Axes]:
    """An inner map: what it maps differs over its axis inside, and its results are whole. Its name hides an equal one."""
    name, hidden = e.params[w.flow.binds[0]], object()  # type: ignore[index]

    def renamed(m: Axes, old: Any, new: Any) -> Axes:
        return (m - {old}) | {new} if old in m else m

    ins = [renamed(m, name, hidden) for m in marks]
    ins = [m if axis is None else m | {name} for m, axis in zip(ins, e.params["in_axes"])]
    outs = varying(w.bodies[0].program, ins, renamed(bound, name, hidden) | {name})
    return [renamed(m - {name}, hidden, name) for m in outs]


def _agree(e: Eqn, decides: Axes, wires: Sequence[Wire], what: str) -> None:
    if not decides:
        return
    waits = {axis: op for wire in wires for axis, op in _waits(wire.program).items()}
    for axis in decides & waits.keys():
        raise ProgramError(
            f"{e.primitive.name}: {what} may differ between the members of the mapped axis {axis!r}, and `{waits[axis]}` over "
            f"that axis stands inside: the members that reach it would wait for the others for ever. Take `{waits[axis]}` out "
            "of it, or let all members decide alike, by lax.pmax or lax.psum of what decides")


def _waits(closed: ClosedJaxpr) -> dict[Any, str]:
    """The axes over which members wait for each other in a program, and an op that does."""
    return closed.memo("waits", lambda: _waiting(closed))


def _waiting(closed: ClosedJaxpr) -> dict[Any, str]:
    found: dict[Any, str] = {}
    for e in closed.jaxpr.eqns:
        p = e.primitive
        if p.axis_params and e.invars:
            found.update(dict.fromkeys(eqn_axis_names(e), p.name))
        if p.subprograms:
            inner = {axis: op for sub in subprograms(e) for axis, op in _waits(sub).items()}
            if p.flow is not None and p.flow.binds:
                inner.pop(e.params[p.flow.binds[0]], None)
            found.update(inner)
    return found


# --- collectives: (marks of the operands together, the axes, params) -> marks of the results ----------------------
def _mixed(total: Axes, axes: Axes, params: dict[str, Any]) -> Axes:
    """Members get different parts, or zeros where they are sent nothing, or say who they are."""
    return total | axes


def _alike(total: Axes, axes: Axes, params: dict[str, Any]) -> Axes:
    """Members of a group get one value; groups get different ones, if only because they are of different sizes."""
    groups = params["axis_index_groups"]
    if groups is None:
        return total - axes
    return total | axes if len({len(g) for g in groups}) > 1 else total


_COLLECTIVES: dict[Primitive, Callable[[Axes, Axes, dict[str, Any]], Axes]] = {
    prims.psum_p: _alike, prims.pmax_p: _alike, prims.pmin_p: _alike, prims.all_gather_p: _alike}
