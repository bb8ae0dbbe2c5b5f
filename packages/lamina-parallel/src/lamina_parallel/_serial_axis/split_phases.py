"""Split a program over a serial axis into phases at the collectives over that axis.

The program is that of one position. Equations that need no other position form one phase: a `scan` over the positions.
A collective needs the values of all positions, so the equations that depend on its result belong to a later phase:

    phase 0                  x -> z = f(x);  total += z          z is stored, since phase 1 reads it; the sum is a carry
    boundary 1               total -> t                          computed once: t does not vary over the axis
    phase 1                  z, t -> y                           y is a result

`residual_schedule` chooses the phase of each value, `checkpoint_phases` turns phases into checkpoints, and
`scan_phases` turns them into scans.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lamina_ir import Atom, ClosedJaxpr, DropVar, Eqn, eqn_axis_names, eqn_has_effects, Jaxpr, Literal, prims, Var
from lamina_ir.extend import find_compared_values
from lamina_ir.typing import AxisName

from .residual_schedule import get_phase, delay_equations, repeat_cheap_equations

__all__ = ["AxisNames", "PhasedProgram", "find_free_vars", "is_accumulable", "make_program", "split_phases"]

AxisNames = frozenset[AxisName]

_SUMS = frozenset([prims.psum_p, prims.pmax_p, prims.pmin_p])


class PhasedProgram(NamedTuple):
    """A program split into phases.

    Attributes:
      phase: variable -> the phase that computes it, for variables that vary over the axis.
      phase_eqns: the equations of each phase.
      boundary_eqns: the equations before each phase, and after the last one: collectives, which need all positions, and
        equations that do not vary over the axis, which run once.
    """

    phase: dict[Atom, int]
    phase_eqns: list[list[Eqn]]
    boundary_eqns: list[list[Eqn]]

    def stored_values(self, results: Sequence[Atom], sums: Sequence[Eqn] = ()) -> list[list[Var]]:
        """For each phase, return the values that are read outside of its own equations.

        `sums` are reductions that only need an accumulated total, so their operands are not stored.
        """
        found: list[dict[Any, None]] = [{} for _ in self.phase_eqns]
        sum_ids = set(map(id, sums))
        read = [v for eqns in self.phase_eqns for v in find_free_vars(eqns)]
        read += [v for eqns in self.boundary_eqns for e in eqns if id(e) not in sum_ids for v in e.invars]
        for v in [*read, *results]:
            if v in self.phase:
                found[self.phase[v]][v] = None
        return list(map(list, found))


def split_phases(closed: ClosedJaxpr, names: AxisNames, inline_checkpoints: bool) -> PhasedProgram:
    """Split a program over some axes into phases.

    With `inline_checkpoints`, checkpoints of phases are replaced by their equations. Each of these stays in the phase
    of its checkpoint.
    """
    jaxpr = closed.jaxpr
    phase: dict[Atom, int] = {}
    available_from: dict[Atom, int] = {}  # result of a boundary equation -> the first phase that can read it
    eqns: list[Eqn] = []
    boundary: list[tuple[int, Eqn]] = []
    effects = 0
    # A phase runs over all positions before the next one begins. So a varying equation belongs to the latest phase
    # that computes or can read one of its operands. A collective belongs to the boundary after the latest phase of
    # its operands.
    for e in jaxpr.eqns:
        is_collective = e.primitive is not prims.axis_index_p and not names.isdisjoint(eqn_axis_names(e))
        effect = eqn_has_effects(e)
        if not is_collective and not effect and varies(e, names):
            at = max([phase.get(v, available_from.get(v, 0)) for v in e.invars], default=0)
            phase.update(dict.fromkeys(e.outvars, at))
            eqns.append(e)
            continue
        at = max([phase[v] + 1 if v in phase else available_from.get(v, 0) for v in e.invars], default=0)
        if effect:  # effects keep their order
            effects = at = max(at, effects)
        available_from.update(dict.fromkeys(e.outvars, at))
        boundary.append((at, e))
    # The boundary `at` follows phase at - 1, so that phase exists even if it has no equations.
    count = max([*phase.values(), *[at - 1 for at, _ in boundary], 0]) + 1
    always_stored = {v for _, e in boundary if not is_accumulable(e, names) for v in e.invars}.union(jaxpr.outvars)
    delay_equations(eqns, boundary, phase, always_stored)
    if inline_checkpoints:
        # Equations of an inlined checkpoint can move one by one, so a second pass finds cheaper phases for them.
        eqns = [new for e in eqns for new in _inline_checkpoint(e, phase)]
        delay_equations(eqns, boundary, phase, always_stored)
    boundary_eqns: list[list[Eqn]] = [[] for _ in range(count + 1)]
    for at, e in boundary:
        boundary_eqns[at].append(e)
    # Recomputed values may be rounded differently; one that is compared with its max/min would no longer equal it.
    always_stored |= find_compared_values([*eqns, *[e for _, e in boundary]])
    return PhasedProgram(phase, repeat_cheap_equations(eqns, phase, always_stored, count), boundary_eqns)


def _inline_checkpoint(e: Eqn, phase: dict[Atom, int]) -> list[Eqn]:
    """Return the equations that replace a checkpoint of a phase once derivatives are taken.

    They need no checkpoint then: the recomputation runs in another loop than the first computation, so XLA cannot merge
    the two. Returns `[e]` if it is no such checkpoint, or one that returns an operand or one value twice.
    """
    if e.primitive is not prims.remat_p or e.params["prevent_cse"] or e.params["call_jaxpr"].consts:
        return [e]
    jaxpr = e.params["call_jaxpr"].jaxpr
    made = {v for b in jaxpr.eqns for v in b.outvars}
    if len(set(jaxpr.outvars)) < len(jaxpr.outvars) or not made.issuperset(jaxpr.outvars):
        return [e]
    env: dict[Atom, Atom] = dict(zip(jaxpr.invars, e.invars))
    env.update([(v, out) for v, out in zip(jaxpr.outvars, e.outvars) if type(out) is not DropVar])
    found = []
    for b in jaxpr.eqns:
        outs = [env.get(v) or type(v)(v.aval) for v in b.outvars]
        env.update(zip(b.outvars, outs))
        phase.update(dict.fromkeys(outs, get_phase(e, phase)))
        found.append(b.replace(invars=[env.get(a, a) for a in b.invars], outvars=outs))
    return found


def is_accumulable(e: Eqn, names: AxisNames) -> bool:
    """Return whether a scan can accumulate the collective: a sum, maximum or minimum over the axis without groups."""
    return e.primitive in _SUMS and e.params["axis_index_groups"] is None and not names.isdisjoint(e.params["axes"])


def varies(e: Eqn, names: AxisNames) -> bool:
    """Return whether an operand or result varies over one of the axes."""
    return any(not names.isdisjoint(a.aval.varying_axes) for a in (*e.invars, *e.outvars))


def find_free_vars(eqns: Sequence[Eqn]) -> list[Atom]:
    """Return the variables that equations read and do not bind, in order of first use."""
    own = {v for e in eqns for v in e.outvars}
    return [v for v in dict.fromkeys(a for e in eqns for a in e.invars) if type(v) is not Literal and v not in own]


def make_program(eqns: Sequence[Eqn], ins: Sequence[Atom], outs: Sequence[Atom]) -> ClosedJaxpr:
    """Copy equations into a program with fresh variables."""
    new = {v: Var(v.aval) for v in ins}
    for e in eqns:
        new.update([(v, type(v)(v.aval)) for v in e.outvars])
    made = [Eqn(e.primitive, [a if type(a) is Literal else new[a] for a in e.invars], [new[v] for v in e.outvars], e.params,
                e.source) for e in eqns]
    return ClosedJaxpr(Jaxpr([], [new[v] for v in ins], made, [new[v] for v in outs]))
