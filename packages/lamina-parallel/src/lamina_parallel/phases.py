"""Programs of one position of an axis that runs in turns, cut into phases at the collectives over it.

What a program computes without asking other positions is one phase: a `scan` over the turns. A collective needs all turns of
what comes before it, so what follows is another phase:

    phase 0                  x -> z = f(x);  total += z          z is kept, since phase 1 reads it; a sum is carried
    between                  total -> t                          once for all: what does not differ between positions
    phase 1                  z, t -> y                           y is a result

Which phase makes a value is in `keeping.py`, how phases become checkpoints in `phase_checkpoints.py`, and scans in `turns.py`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var, eqn_axis_names, eqn_effectful, prims
from lamina_ir.extend import compared

from .keeping import phase_of, put_off, with_repeated

__all__ = ["Cut", "Names", "cut_at", "is_sum", "program_of", "reads_of"]

Names = frozenset[Any]

_SUMS = frozenset([prims.psum_p, prims.pmax_p, prims.pmin_p])


class Cut(NamedTuple):
    """A program in phases.

    Attributes:
      phase: variable -> the phase that computes it, for what differs between positions.
      inside: the equations of each phase.
      between: those before each phase, and after the last: what is computed once, and what needs all positions.
    """

    phase: dict[Any, int]
    inside: list[list[Eqn]]
    between: list[list[Eqn]]

    def kept(self, results: Sequence[Any], sums: Sequence[Eqn] = ()) -> list[list[Any]]:
        """For each phase what others than its own equations read of it; `sums` read no more than a total."""
        found: list[dict[Any, None]] = [{} for _ in self.inside]
        less = set(map(id, sums))
        read = [v for eqns in self.inside for v in reads_of(eqns)]
        read += [v for eqns in self.between for e in eqns if id(e) not in less for v in e.invars]
        for v in [*read, *results]:
            if v in self.phase:
                found[self.phase[v]][v] = None
        return list(map(list, found))


def cut_at(closed: ClosedJaxpr, names: Names, opened: bool) -> Cut:
    """The phases of a program over some axes; `opened`: without the checkpoints of phases, each of which stays in one phase."""
    jaxpr = closed.jaxpr
    phase: dict[Any, int] = {}
    ready: dict[Any, int] = {}  # what is made between phases -> the first phase that can read it
    mine: list[Eqn] = []
    others: list[tuple[int, Eqn]] = []
    effects = 0
    for e in jaxpr.eqns:
        asks = e.primitive is not prims.axis_index_p and not names.isdisjoint(eqn_axis_names(e))
        effect = eqn_effectful(e)
        if not asks and not effect and differs(e, names):
            at = max([phase.get(v, ready.get(v, 0)) for v in e.invars], default=0)
            phase.update(dict.fromkeys(e.outvars, at))
            mine.append(e)
            continue
        at = max([phase[v] + 1 if v in phase else ready.get(v, 0) for v in e.invars], default=0)
        if effect:  # these keep their order
            effects = at = max(at, effects)
        ready.update(dict.fromkeys(e.outvars, at))
        others.append((at, e))
    count = max([*phase.values(), *[at - 1 for at, _ in others], 0]) + 1
    whole = {v for _, e in others if not is_sum(e, names) for v in e.invars}.union(jaxpr.outvars)
    put_off(mine, others, phase, whole)
    if opened:
        mine = [new for e in mine for new in without_checkpoint(e, phase)]
        put_off(mine, others, phase, whole)
    between: list[list[Eqn]] = [[] for _ in range(count + 1)]
    for at, e in others:
        between[at].append(e)
    return Cut(phase, with_repeated(mine, phase, whole | compared([*mine, *[e for _, e in others]]), count), between)


def without_checkpoint(e: Eqn, phase: dict[Any, int]) -> list[Eqn]:
    """What stands for an equation once derivatives are taken: what a phase computes again stands in another loop than the first
    time. Itself where it is no checkpoint of a phase, or one that hands on what it is given."""
    if e.primitive is not prims.remat_p or e.params["prevent_cse"] or e.params["call_jaxpr"].consts:
        return [e]
    jaxpr = e.params["call_jaxpr"].jaxpr
    made = {v for b in jaxpr.eqns for v in b.outvars}
    if len(set(jaxpr.outvars)) < len(jaxpr.outvars) or not made.issuperset(jaxpr.outvars):
        return [e]
    env: dict[Any, Any] = dict(zip(jaxpr.invars, e.invars))
    env.update([(v, out) for v, out in zip(jaxpr.outvars, e.outvars) if type(out) is not DropVar])
    found = []
    for b in jaxpr.eqns:
        outs = [env.get(v) or type(v)(v.aval) for v in b.outvars]
        env.update(zip(b.outvars, outs))
        phase.update(dict.fromkeys(outs, phase_of(e, phase)))
        found.append(b.replace(invars=[env.get(a, a) for a in b.invars], outvars=outs))
    return found


def is_sum(e: Eqn, names: Names) -> bool:
    """Whether it needs no more than what turns can carry: a total, or an extreme."""
    return e.primitive in _SUMS and e.params["axis_index_groups"] is None and not names.isdisjoint(e.params["axes"])


def differs(e: Eqn, names: Names) -> bool:
    return any(not names.isdisjoint(a.aval.over) for a in (*e.invars, *e.outvars))


def reads_of(eqns: Sequence[Eqn]) -> list[Any]:
    """What equations read that they do not bind."""
    own = {v for e in eqns for v in e.outvars}
    return [v for v in dict.fromkeys(a for e in eqns for a in e.invars) if type(v) is not Literal and v not in own]


def program_of(eqns: Sequence[Eqn], ins: Sequence[Any], outs: Sequence[Any]) -> ClosedJaxpr:
    """Equations as a program with variables of its own."""
    new = {v: Var(v.aval) for v in ins}
    for e in eqns:
        new.update([(v, type(v)(v.aval)) for v in e.outvars])
    made = [Eqn(e.primitive, [a if type(a) is Literal else new[a] for a in e.invars], [new[v] for v in e.outvars], e.params,
                e.source) for e in eqns]
    return ClosedJaxpr(Jaxpr([], [new[v] for v in ins], made, [new[v] for v in outs]))
