"""Over which mapped axes values may differ (`ShapedArray.over`): decided here, for all ops, when an equation is made.

A value differs over an axis if its members may hold different numbers. That goes with dependence: results differ over what
their operands differ over together. `Primitive.over` has the exceptions: sums, extremes and gathers over all of an axis take
it away. Nested programs are followed along their flow, loops until nothing changes, and get the types that follow.

A branch or a loop with collectives over an axis must run for all members of it or for none, or those that run it wait for
the others for ever: what decides must not differ over that axis.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arguments import AXES, CLOSED, MARKS, refuse_misfit, takes
from .avals import Axes, ShapedArray
from .errors import LaminaError, ProgramError
from .params import UnnamedAxis
from .primitive import Primitive
from .program import ClosedJaxpr, Eqn, Jaxpr, Var, axis_names_of, eqn_axis_names, subprograms
from .wiring import Wire, Wired, forward

__all__ = ["over_of_results", "refuse_disagreement", "speaks_of_axes", "typed_equation", "typed_program"]

_NONE: Axes = frozenset()
_Found = Sequence[Axes] | Axes  # for each result, or for all of them


def typed_equation(prim: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any], bound: Axes,
                   outs: Any = None) -> tuple[dict[str, Any], Any]:
    """What an equation is made of while mapped axes are bound.

    Args:
      prim: its op.
      avals: the types of its operands.
      params: its params.
      bound: the names of the axes that are bound.
      outs: the types of its results without `over`; default: what the op infers.
    Returns:
      (params, in which nested programs have types for these operands; types of the results, as `prim.infer` gives them).

    >>> from lamina_ir import prims, shaped
    >>> x, y = shaped((3,), "float32"), shaped((3,), "float32").differing(frozenset("i"))
    >>> typed_equation(prims.add_p, [x, y], {}, frozenset("i"))[1]
    ShapedArray(float32[3]{i})
    """
    if outs is None:
        try:
            outs = prim.infer(*avals, **params)
        except Exception as error:  # a type rule fed with nonsense may fail in any way
            refuse_misfit("typed_equation", error, prim, avals, params)
            raise
    found: _Found
    if prim.plainly_over:  # as nearly all are: `_together`, without a list
        total = _NONE
        for a in avals:
            if a.over is not total and a.over:
                total = total | a.over if total else a.over
        found = total
    else:
        params, found = _decide(prim, [a.over for a in avals], params, bound, True)
    if not prim.multiple:
        return params, outs if outs.over is found else outs.differing(found)
    if type(found) is frozenset:
        return params, [a.differing(found) for a in outs]
    return params, [a.differing(m) for a, m in zip(outs, found, strict=True)]


@takes(closed=CLOSED, marks=MARKS, bound=AXES)
def typed_program(closed: ClosedJaxpr, marks: Sequence[Axes], bound: Axes) -> ClosedJaxpr:
    """A program with the types that follow if its arguments differ over these axes; itself if it has them.

    Unnamed axes are not written in types: no two of them are equal, so programs that are alike would not be; and nobody can
    name one. Nor is, inside of a map, an outer axis of the same name.

    Args:
      closed: the program.
      marks: for each argument, the axes over which it differs.
      bound: the names of the axes that are bound.
    Returns:
      A program, remembered with `closed`.

    >>> from lamina_ir import parse
    >>> typed_program(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), [frozenset("i")], frozenset("i"))
    { lambda ; a:f32[]{i}. let b:f32[]{i} = sin a in (b,) }
    """
    marks, bound = tuple([_named(m) for m in marks]), _named(bound)
    return closed.memo(("typed", marks, bound), lambda: _write(closed, marks, bound)) or closed


@takes(closed=CLOSED, marks=MARKS, bound=AXES)
def over_of_results(closed: ClosedJaxpr, marks: Sequence[Axes], bound: Axes) -> tuple[Axes, ...]:
    """For each result of a program, the mapped axes over which it may differ.

    Args:
      closed: the program of one member.
      marks: for each argument, the axes over which it differs.
      bound: all axes in force.
    Returns:
      A frozenset of axis names for each result.

    >>> from lamina_ir import parse
    >>> total = parse("{ lambda ; a:f32[]. let b:f32[] = psum[axes=('i',) axis_index_groups=None] a in (a, b) }")
    >>> [sorted(v) for v in over_of_results(total, [frozenset("i")], frozenset("i"))]
    [['i'], []]
    """
    marks = tuple(marks)
    return closed.memo(("over", marks, bound), lambda: _walk(closed, marks, bound))


def _named(marks: Axes) -> Axes:
    if any(type(name) is UnnamedAxis for name in marks):
        return frozenset([name for name in marks if type(name) is not UnnamedAxis])
    return marks


def _each(found: _Found, e: Eqn) -> Sequence[Axes]:
    return [found] * len(e.outvars) if isinstance(found, frozenset) else found


def _start(jaxpr: Jaxpr, marks: Sequence[Axes]) -> dict[Any, Axes]:
    known = {v: v.aval.over for v in jaxpr.constvars if v.aval.over}
    known.update([(v, m) for v, m in zip(jaxpr.invars, marks) if m])
    return known


def _walk(closed: ClosedJaxpr, marks: Sequence[Axes], bound: Axes) -> tuple[Axes, ...]:
    jaxpr = closed.jaxpr
    known = _start(jaxpr, marks)
    for e in jaxpr.eqns:
        _, found = _decide(e.primitive, [known.get(v, _NONE) for v in e.invars], e.params, bound, False)
        if found:
            known.update([(v, m) for v, m in zip(e.outvars, _each(found, e)) if m])
    return tuple([known.get(v, _NONE) for v in jaxpr.outvars])


def _write(closed: ClosedJaxpr, marks: Sequence[Axes], bound: Axes) -> ClosedJaxpr | None:
    """The program with other types; None where it has them: it should not remember itself."""
    jaxpr = closed.jaxpr
    known = _start(jaxpr, marks)
    new: dict[Any, Any] = {}

    def fit(v: Var, over: Axes) -> Var:
        if v.aval.over == over:
            return v
        new[v] = fresh = type(v)(v.aval.differing(over))
        return fresh

    invars = [fit(v, m) for v, m in zip(jaxpr.invars, marks)]
    eqns: list[Eqn] = []
    changed = bool(new)
    for e in jaxpr.eqns:
        params, found = _decide(e.primitive, [known.get(v, _NONE) for v in e.invars], e.params, bound, True)
        each = _each(found, e)
        outvars = [fit(v, m) for v, m in zip(e.outvars, each)]
        known.update([(v, m) for v, m in zip(e.outvars, each) if m])
        if params is not e.params or (new and not new.keys().isdisjoint([*e.invars, *e.outvars])):
            e = Eqn(e.primitive, [new.get(v, v) for v in e.invars], outvars, params, e.source)
            changed = True
        eqns.append(e)
    if not changed:
        return None
    made = ClosedJaxpr(Jaxpr(jaxpr.constvars, invars, eqns, [new.get(v, v) for v in jaxpr.outvars], jaxpr.axis_names,
                             jaxpr.effectful), closed.consts)
    if "source" in closed.remembered():  # where the loop stands whose body it is
        source = closed.memo("source", lambda: None)
        made.memo("source", lambda: source)
    return made


def _decide(prim: Primitive, overs: Sequence[Axes], params: dict[str, Any], bound: Axes,
            write: bool) -> tuple[dict[str, Any], _Found]:
    """What results differ over, and, if they are to be written, params with programs of the types that follow."""
    flow = prim.flow
    if flow is not None:
        beside = {p: typed_program(params[p], [a.over for a in params[p].in_avals], bound) for p in flow.beside
                  if write and type(params[p]) is ClosedJaxpr}
        params = _with(params, beside)
        if flow.operands:
            return _nested(prim, overs, params, bound, write)
    total = _together(overs)
    if prim.over is not None:
        return params, prim.over(total, axis_names_of(prim, params), params, bound)
    if prim.axis_params:
        # Members get different parts, or zeros where they are sent nothing, or say who they are.
        return params, total | axis_names_of(prim, params)
    return params, total | bound if prim.effectful else total  # with effects each member asks for itself


def _together(overs: Sequence[Axes]) -> Axes:
    total = _NONE
    for over in overs:
        if over is not total and over:
            total = total | over if total else over
    return total


def _with(params: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return params if all(params[p] is v for p, v in new.items()) else {**params, **new}


def _settled(prim: Primitive, overs: Sequence[Axes], params: dict[str, Any],
             bound: Axes) -> tuple[Wired, Sequence[Axes], Axes, Sequence[Axes]]:
    """Of an op with programs: what operands differ over inside, the axes bound there, and what its results differ over."""
    w = Wired(prim, params, len(overs))
    inside = bound
    ins: Sequence[Axes] = overs
    binds = w.flow.binds
    if binds is not None:
        # An inner map: what it maps differs over its axes inside, and its results are whole. Its names hide equal ones.
        names = binds.names(params)
        hidden = names & bound.union(*overs)
        away = {name: UnnamedAxis() for name in hidden}
        back = {other: name for name, other in away.items()}
        inside = _renamed(bound, away) | names
        ins = [_renamed(m, away) | binds.along(params, entry) for m, entry in zip(overs, params[binds.ins])]
    ins, found = forward(w, ins, lambda wire, marks: over_of_results(wire.program, marks, inside))
    if binds is not None:
        found = tuple([_renamed(m - names, back) for m in found])
    return w, ins, inside, found


def _nested(prim: Primitive, overs: Sequence[Axes], params: dict[str, Any], bound: Axes,
            write: bool) -> tuple[dict[str, Any], Sequence[Axes]]:
    w, ins, inside, found = _settled(prim, overs, params, bound)
    if not write:
        return params, found
    if w.chooser is not None and ins[w.chooser]:  # in a branch that not all members run all belongs to those that do
        ins = [m | ins[w.chooser] for m in ins]
    made = [typed_program(wire.program, [ins[i] for i in wire.ins], inside) for wire in w.wires]
    new: dict[str, Any] = {w.flow.test: made.pop(0)} if w.flow.test else {}
    if all(a is b.program for a, b in zip(made, w.bodies)):
        return _with(params, new), found
    new[w.flow.body] = made[0] if isinstance(params[w.flow.body], ClosedJaxpr) else tuple(made)
    return _with(params, new), found


def _renamed(m: Axes, new: dict[Any, Any]) -> Axes:
    return frozenset([new.get(name, name) for name in m]) if new else m


@takes(closed=CLOSED)
def speaks_of_axes(closed: ClosedJaxpr) -> bool:
    """Whether mapped axes are bound or referred to in a program.

    Args:
      closed: the program.
    Returns:
      A truth value.

    >>> from lamina_ir import parse
    >>> speaks_of_axes(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    False
    """
    def find() -> bool:
        return bool(closed.jaxpr.axis_names) or any(
            bool(e.primitive.flow.binds) or any(map(speaks_of_axes, subprograms(e)))  # type: ignore[union-attr]
            for e in closed.jaxpr.eqns if e.primitive.subprograms)

    return closed.memo("speaks of axes", find)


def completed(program: Any) -> Any:
    """A program that was written without saying what differs, saying it; itself if it is ill-formed, as `check` will say."""
    closed = program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program, [None] * len(program.constvars))
    try:
        if not speaks_of_axes(closed):
            return program
        made = typed_program(closed, [a.over for a in closed.in_avals], _NONE)
    except (LaminaError, KeyError, IndexError, TypeError, ValueError, AttributeError):
        return program
    return made if closed is program else made.jaxpr


def over_problem(e: Eqn, bound: Axes) -> str:
    """What is wrong with what an equation and the programs in it say differs; empty if they say at least what does."""
    overs, p = [a.aval.over for a in e.invars], e.primitive
    if not (p.may_read_axes or bound or any(overs)):
        return ""
    if p.flow is not None and p.flow.operands:
        w, ins, _, found = _settled(p, overs, e.params, bound)
        for wire in w.wires:
            for k, (i, a) in enumerate(zip(wire.ins, wire.program.in_avals)):
                if not _named(ins[i]) <= a.over:
                    return f"its program takes argument {k} as {a.short()}; it may differ over {_listed(ins[i])}"
        each = found
    else:
        each = _each(_decide(p, overs, e.params, bound, False)[1], e)
    for i, (v, m) in enumerate(zip(e.outvars, each)):
        if not _named(m) <= v.aval.over:
            return f"result {i} is {v.aval.short()}; it may differ over {_listed(m)}"
    return ""


def _listed(m: Axes) -> str:
    return ", ".join(sorted(map(repr, _named(m))))


# --- who waits for whom -------------------------------------------------------------------------------------------
@takes(closed=CLOSED)
def refuse_disagreement(closed: ClosedJaxpr) -> None:
    """ProgramError where members of an axis would part ways, at a branch or loop with collectives over it.

    Args:
      closed: a program whose types say what differs.
    Raises:
      ProgramError: names the op, what decides, the axis and the collective.

    >>> from lamina_ir import parse
    >>> text = "{ lambda ; a:f32[]{i}. let b:f32[] = psum[axes=('i',) axis_index_groups=None] a in (b,) }"
    >>> refuse_disagreement(parse(text))
    """
    closed.memo("agreed", lambda: _look_through(closed))


def _look_through(closed: ClosedJaxpr) -> None:
    for e in closed.jaxpr.eqns:
        flow = e.primitive.flow
        if flow is None:
            continue
        if flow.operands:
            w = Wired.of(e)
            if w.chooser is not None:
                _agree(e, e.invars[w.chooser].aval.over, w.bodies, "which branch runs")
            if flow.test:
                _agree(e, w.wires[0].program.out_avals[0].over, w.wires, "the number of turns")
        for sub in subprograms(e):
            refuse_disagreement(sub)


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
            for name, _ in p.flow.axes(e.params):  # type: ignore[union-attr]
                inner.pop(name, None)
            found.update(inner)
    return found
