"""Residual schedule: choose the phase of each value so that few bytes are stored between phases.

A stored value has one slice for each position of the axis. `delay_equations` moves an equation to the phase that reads
its result if that stores fewer bytes. `repeat_cheap_equations` recomputes a value from stored values if a few cheap
equations suffice."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lamina_ir import Atom, Eqn
from lamina_ir.extend import MAX_CHEAP_EQNS, is_cheap
from lamina_ir.typing import Value

__all__ = ["delay_equations", "get_phase", "repeat_cheap_equations"]

_FAR = 64  # most equations that are moved as one group; bounds the search


def delay_equations(eqns: Sequence[Eqn], boundary_eqns: Sequence[tuple[int, Eqn]], phase: dict[Atom, int],
            always_stored: set[Atom]) -> None:
    """Move equations to the first phase that reads their results, if that does not increase the bytes stored between
    phases.

    Updates `phase` in place. `always_stored` values are stored in any case, so moving their equations saves nothing.

    Args:
      eqns: the equations inside of phases, in order.
      boundary_eqns: `(boundary, equation)` of those between phases; boundary k precedes phase k.
      phase: variable -> the phase that computes it.
      always_stored: values that a collective reads at a boundary, and results.
    """
    readers = _Readers(eqns, boundary_eqns, phase, always_stored)
    producers: dict[Atom, Eqn] = {v: e for e in eqns for v in e.outvars}
    # Readers first: an equation can only follow once all readers of its results have their final phases.
    for e in reversed(eqns):
        new = readers.first_phase(e)
        if new is not None and new > get_phase(e, phase):
            _delay_equation(e, new, producers, phase, readers)


class _Readers:
    """The phases that read each value, while `delay_equations` moves equations. Arguments: as of that function."""

    def __init__(self, eqns: Sequence[Eqn], boundary_eqns: Sequence[tuple[int, Eqn]], phase: dict[Atom, int],
                 always_stored: set[Atom]) -> None:
        self.phase, self.always_stored = phase, always_stored
        # variable -> last phase that may compute it, as the boundary after that phase reads it
        self.due: dict[Atom, int] = {}
        for at, e in boundary_eqns:
            for v in e.invars:
                # The collective at boundary `at` runs after phase at - 1, so its operands must be computed by then.
                self.due[v] = min(at - 1, self.due.get(v, at))
        # Counts, not sets: a tentative move must be undone exactly (`_delay_equation`).
        self.counts: dict[Atom, Counter[int]] = {}  # variable -> phase -> number of equations that read it there
        for e in eqns:
            for v in {*e.invars}:
                self.counts.setdefault(v, Counter())[get_phase(e, phase)] += 1

    def first_phase(self, e: Eqn) -> int | None:
        """Return the first phase that needs a result of the equation; None if nothing reads it."""
        phases = [p for v in e.outvars for p, n in self.counts.get(v, {}).items() if n]
        return min([*phases, *[self.due[v] for v in e.outvars if v in self.due]], default=None)

    def move(self, e: Eqn, old: int, new: int) -> None:
        """Count an equation as a reader in another phase."""
        for v in {*e.invars}:
            self.counts[v][old] -= 1
            self.counts[v][new] += 1

    def is_stored_after(self, v: Atom, phase: int) -> bool:
        """Return whether a value is stored after a phase, because a later phase reads it or it is stored in any case."""
        return v in self.always_stored or any(n and p > phase for p, n in self.counts.get(v, {}).items())

    def dropped_operands(self, e: Eqn) -> set[Atom]:
        """Return the operands that are dropped after their own phase; storing them costs memory."""
        return {v for v in e.invars if v in self.phase and not self.is_stored_after(v, self.phase[v])}


def _delay_equation(e: Eqn, new: int, producers: dict[Atom, Eqn], phase: dict[Atom, int], readers: _Readers) -> None:
    """Move an equation to a later phase, with the producers of its operands where that is needed to save memory.

    Moving `e` alone stops storing its results (`gain` bytes) and starts storing its operands (`edge`). If that costs
    more, the producers of the operands that no earlier phase needs move too, until the edge is small enough.
    """
    group, old = [e], {id(e): get_phase(e, phase)}
    gain = _count_bytes([v for v in e.outvars if not readers.is_stored_after(v, new)])
    edge = readers.dropped_operands(e)
    readers.move(e, old[id(e)], new)
    while edge and _count_bytes(edge) > gain and len(group) < _FAR:
        producer = next((producers[v] for v in edge if (readers.first_phase(producers[v]) or 0) >= new), None)
        if producer is None:
            break
        group.append(producer)
        old[id(producer)] = get_phase(producer, phase)
        edge = edge.difference(producer.outvars) | readers.dropped_operands(producer)
        readers.move(producer, old[id(producer)], new)
    is_worth_it = gain and _count_bytes(edge) <= gain
    for moved in group:
        if is_worth_it:
            phase.update(dict.fromkeys(moved.outvars, new))
        else:
            readers.move(moved, new, old[id(moved)])


def repeat_cheap_equations(eqns: Sequence[Eqn], phase: dict[Atom, int], always_stored: set[Atom],
                           count: int) -> list[list[Eqn]]:
    """Return the equations of each phase, including cheap equations of earlier phases that are repeated there.

    A value is recomputed instead of stored if at most `MAX_CHEAP_EQNS` cheap equations make it of values that the phase
    can read anyway. `always_stored` values are never recomputed.
    """
    later = always_stored | {v for e in eqns for v in e.invars if v in phase and phase[v] < get_phase(e, phase)}
    # Variable -> the equations that recompute it from stored values; () if it is stored itself, None if it is too
    # expensive.
    recipes: dict[Atom, tuple[int, ...] | None] = {}
    for i, e in enumerate(eqns):
        parts = [recipes[v] for v in e.invars if v in recipes]
        recipe = None
        if is_cheap(e) and None not in parts:
            recipe = tuple(sorted({i}.union(*parts)))  # type: ignore[arg-type]
        for v in e.outvars:
            small = recipe is not None and len(recipe) <= MAX_CHEAP_EQNS and v not in always_stored
            recipes[v] = recipe if small else () if v in later else None
    phase_eqns: list[set[int]] = [set() for _ in range(count)]
    for i, e in enumerate(eqns):
        at = get_phase(e, phase)
        phase_eqns[at].add(i)
        for a in e.invars:
            if a in phase and phase[a] < at:
                phase_eqns[at].update(recipes[a] or ())
    return [[eqns[i] for i in sorted(indices)] for indices in phase_eqns]


def get_phase(e: Eqn, phase: dict[Atom, int]) -> int:
    """Return the phase that computes the results of an equation; 0 if it has no results."""
    return max([phase[v] for v in e.outvars], default=0)


def _count_bytes(values: Iterable[Value]) -> int:
    return sum([v.aval.size * v.aval.dtype.itemsize for v in values])
