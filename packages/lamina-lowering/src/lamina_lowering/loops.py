"""Calls of one function, again and again, as one loop.

`for _ in range(300): x = f(x + 1)` stages 300 equations that call one program. XLA has no calls on CPUs: it copies the
body into each of them and compiles every copy, 1.7 ms for a product and a fused loop, 500 ms in all. As a loop the body
is compiled once (20 ms in all) and runs as fast, because a body that is more than elementwise arithmetic is not fused with
its neighbours anyway. Elementwise bodies stay as they are: of those XLA makes one kernel.

A *run* is a stretch of `n` groups of `p` equations each, the first of each group a call of the same program. Equation j of
every group has one primitive, params and types, and stands on one line of the user's program. Each of its operands is

- *inner*: result of an equation of its own group, the same one in each group;
- *carried*: result of an equation of the group before, the same one in each group; the first group reads anything;
- *outside*: a value from before the run, or a literal: one *held* by all groups, or another one in *each*.

Then the run is a `scan` of length n over the carried values. Values of which each group reads its own are rows of an array,
read at the number of the turn: often they are rows already, of an array that the program slices or of what an earlier loop
has stacked, and in that array's order or against it (the backward half of a gradient reads what the forward half saved);
else they are put together first. Results that are read after the run are stacked. What does not fit (a value handed on over
two groups) stays as it is, and so does what stacking would cost more than it saves (`_Rolling.worth`).
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, Source, Var, eqn_effectful, prims, shaped, subprograms

from .rows import I32, VIEWS, Row, put_together, rows_first, stacked_again, take_row

__all__ = ["LEAST", "MANY", "SMALL", "WRITES", "rolled"]

LEAST = 16  # groups from which a loop is made; shorter runs compile fast enough and may gain from being seen whole
_FUSED = frozenset(("elementwise", "special", "shape", "indexing", "random_bits"))
_NEVER = frozenset(("collectives", "callbacks"))
MANY = 48  # groups from which that is so where results have to be stacked: such a loop compiles in the time of 30 to 50 calls
SMALL = 4096  # bytes of a value up to which each group's own is put together with the others: they are copied twice
_ROW = 32  # taking one row of a stack by itself costs as much compile time as so many equations of a body: a kernel for each
_BREAKS = 3  # how often what the groups read may be interrupted: the first and the last one often read something else
_TRIES = 8

# Ops that loops are made of and that they take away: while a row of these is overridden, it is asked for the program as it is.
WRITES = frozenset((*VIEWS, prims.scan_p, prims.add_p, prims.mul_p, prims.dynamic_slice_p, prims.dynamic_update_slice_p,
                    prims.concatenate_p, prims.transpose_p))

_INNER, _CARRIED, _OUTSIDE = range(3)
_OUT = (_OUTSIDE, 0, 0)
_FAR = (-1, 0, 0)  # from earlier in the run than the group before
Slot = tuple[int, int, int]


class _Run(NamedTuple):
    """Groups `[start + k * period, start + (k + 1) * period)`; `slots[j]` says what the operands of equation j are:
    `(_INNER, j, result)`, `(_CARRIED, j, result)` or `_OUT`; `columns[j, i]` holds what the groups read at operand i of
    equation j where that is `_OUT`; `stacked` are the results `(j, result)` that are read after the run."""

    start: int
    period: int
    count: int  # type: ignore[assignment]  # tuple.count is not wanted here
    slots: list[list[Slot]]
    columns: dict[tuple[int, int], _Column]
    stacked: list[tuple[int, int]]


class _Column(NamedTuple):
    """What the groups read from outside at one operand: `atoms[k]` in group k. `step` is None where it is one value; else row
    `first + k * step` of `array` along `axis`; of an `array` None, that number itself; and of () the atoms put together."""

    atoms: list[Any]
    array: Any = None
    axis: int = 0
    first: int = 0
    step: int | None = None


def rolled(eqns: list[Eqn], outvars: Sequence[Any]) -> list[Eqn]:
    """The same program with its runs as loops. Time is linear in the equations and their operands."""
    if not _often(eqns):
        return eqns
    ordered, rows = rows_first(eqns, outvars)
    # A loop that turned out to be wasteful stays calls, and what would have read what it stacks is looked at again.
    calls: set[Any] = set()
    for _ in range(_TRIES):
        rolling = _Rolling(ordered, outvars, dict(rows), calls)
        made = rolling.program()
        if not rolling.wasteful:
            return made if rolling.loops else eqns
        calls |= rolling.wasteful
    return eqns


def _often(eqns: list[Eqn]) -> list[list[int]]:
    """The positions of the calls of each program that is called often enough. Most programs have none."""
    places: dict[Any, list[int]] = {}
    for i, e in enumerate(eqns):
        if e.primitive is prims.xla_call_p:
            places.setdefault(id(e.params["call_jaxpr"]), []).append(i)
    return [at for at in places.values() if len(at) >= LEAST and _kinds(eqns[at[0]].params["call_jaxpr"]) == (True, False)]


def _kinds(closed: ClosedJaxpr) -> tuple[bool, bool]:
    """Whether a program holds what XLA fuses with nothing around it, and whether something that must stay in its place."""
    heavy = never = closed.jaxpr.effectful
    for e in closed.jaxpr.eqns:
        h, n = _kinds_of(e)
        heavy |= h
        never |= n
    return heavy, never


def _kinds_of(e: Eqn) -> tuple[bool, bool]:
    nested = [s.memo("lowering: kinds", lambda s=s: _kinds(s)) for s in subprograms(e)]
    return (any(h for h, _ in nested) or not nested and e.primitive.family not in _FUSED,
            any(n for _, n in nested) or e.primitive.family in _NEVER or e.primitive in (prims.xla_pmap_p, prims.shard_map_p))


def _evenly_spaced(at: list[int]) -> Iterator[tuple[int, int, int]]:
    """(first, distance, count) of the longest stretches of evenly spaced positions."""
    first = 0
    while first < len(at) - 1:
        period, last = at[first + 1] - at[first], first + 1
        while last + 1 < len(at) and at[last + 1] - at[last] == period:
            last += 1
        if last - first + 1 >= LEAST:
            yield at[first], period, last - first + 1
        first = last


class _Rolling:
    """One way through a program, from its first equation to its last: each run on the way becomes a loop.

    `rows` grows by what the loops stack, so that later runs find it. `calls` are first results of runs that stay as they are.
    """

    def __init__(self, eqns: list[Eqn], outvars: Sequence[Any], rows: dict[Any, Row], calls: set[Any]) -> None:
        self.eqns = eqns
        self.rows = rows
        self.calls = calls
        self.made_at = {v: (i, k) for i, e in enumerate(eqns) for k, v in enumerate(e.outvars)}
        self.last_read = {v: i for i, e in enumerate(eqns) for v in e.invars if v.__class__ is not Literal}
        self.last_read.update((v, len(eqns)) for v in outvars if v.__class__ is not Literal)
        self.lines: dict[tuple[int, int], int] = {}
        self.out: list[Eqn] = []
        self.done = 0  # equations before this one have been written
        self.loops: list[_Run] = []
        self.wasteful: set[Any] = set()
        self.stacks: set[Any] = set()
        self.unstacked: dict[Any, _Run] = {}  # a slice that takes a result out of its loop's stack -> the run

    def program(self) -> list[Eqn]:
        """The whole program; afterwards `wasteful` are first results of the runs that were better left."""
        # Candidates are calls of one program at even distances: the distance is the period.
        for start, period, count in sorted(s for at in _often(self.eqns) for s in _evenly_spaced(at)):
            # Runs do not overlap: the first to fit takes its equations.
            while start >= self.done and count >= LEAST:
                looked_at = self.look(start, period, count)
                start, count = start + looked_at * period, count - looked_at
        self.out += self.eqns[self.done:]
        # A row that only loops read is read there, from the array that it stands in.
        eqns = stacked_again(self.out, self.rows, LEAST)
        read = {v for v, at in self.last_read.items() if at == len(self.eqns)}
        kept = []
        taken: dict[int, int] = {}
        for e in reversed(eqns):
            v = e.outvars[0] if e.outvars else None
            if v not in read and e.primitive in VIEWS:
                continue
            kept.append(e)
            read.update(e.invars)
            if v in self.unstacked:
                taken[self.unstacked[v].start] = taken.get(self.unstacked[v].start, 0) + 1
        for run in self.loops:
            if not _worth_taking_apart(self.eqns, run, taken.get(run.start, 0)):
                self.wasteful.add(self.eqns[run.start].outvars[0])
        return kept[::-1]

    # --- what is a run --------------------------------------------------------------------------------------------
    def look(self, start: int, period: int, count: int) -> int:
        """Write the runs that begin at `start` and have groups of `period` equations; how many groups were looked at."""
        eqns = self.eqns
        count = min(count, (len(eqns) - start) // period)
        if count < LEAST:
            return count
        # The second group says what operands are: in the first, what is carried still comes from outside.
        slots = [[self.slot(a, start + period, period, start) for a in eqns[start + period + j].invars] for j in range(period)]
        if any(_FAR in row for row in slots) or any(eqn_effectful(e) or _kinds_of(e)[1] for e in eqns[start:start + period]):
            return 1
        groups = 0
        while groups < count and self.fits(slots, start, period, groups):
            groups += 1
        if groups >= LEAST:
            self.divide(start, period, groups, slots)
        return max(groups, 1)

    def slot(self, atom: Any, first: int, period: int, start: int) -> Slot:
        """What an operand of an equation is whose group begins at `first`, in a run that begins at `start`."""
        at, k = (-1, 0) if atom.__class__ is Literal else self.made_at.get(atom, (-1, 0))
        if at >= first:
            return _INNER, at - first, k
        if at < start:
            return _OUT
        return (_CARRIED, at - first + period, k) if at >= first - period else _FAR

    def fits(self, slots: list[list[Slot]], start: int, period: int, group: int) -> bool:
        eqns, first = self.eqns, start + group * period
        for j, wanted in enumerate(slots):
            model, e = eqns[start + j], eqns[first + j]
            if not _alike(model, e, self.lines) or len(e.invars) != len(wanted):
                return False
            for w, atom in zip(wanted, e.invars):
                if w[0] == _CARRIED and not group:
                    a, b = atom.aval, eqns[start + w[1]].outvars[w[2]].aval
                    if self.slot(atom, first, period, start) != _OUT or a.shape != b.shape or a.dtype != b.dtype:
                        return False
                elif self.slot(atom, first, period, start) != w:
                    return False
        return True

    def divide(self, start: int, period: int, groups: int, slots: list[list[Slot]]) -> None:
        """Write the runs in these groups, which are alike but for what they read from outside and what is read of them."""
        eqns = self.eqns
        carried = {s[1:] for row in slots for s in row if s[0] == _CARRIED}
        if groups < LEAST or not carried or eqns[start].outvars[0] in self.calls:
            return
        end = start + groups * period
        late = [[(j, k) for j in range(period) for k, v in enumerate(eqns[start + g * period + j].outvars)
                 if self.last_read.get(v, 0) >= end] for g in range(groups)]
        early = [g + 1 for g, found in enumerate(late[:-1]) if found]
        columns = {}
        cuts: set[int] = set()
        if len(early) * LEAST <= groups:  # a few results that are read for themselves: runs end there
            cuts.update(early)
            early = []
        for j, row in enumerate(slots):
            for i, s in enumerate(row):
                if s == _OUT:
                    column, breaks = self.column([eqns[start + g * period + j].invars[i] for g in range(groups)])
                    if column is None:
                        return
                    columns[j, i] = column
                    cuts.update(breaks)
        stacked = sorted({r for g in early for r in late[g - 1]})
        if not cuts and any(r not in carried and r not in stacked for r in late[-1]):
            cuts.add(groups - 1)  # a result that is neither carried nor stacked keeps its group out of the loop
        if cuts:
            ends = [0, *sorted(cuts), groups]
            for a, b in zip(ends, ends[1:]):
                self.divide(start + a * period, period, b - a, slots)
            return
        run = _Run(start, period, groups, slots, columns, stacked)
        if self.worth(run):
            self.write(run)

    def column(self, atoms: list[Any]) -> tuple[_Column | None, list[int]]:
        """How the groups' values at one operand hang together, and the groups before which that is interrupted."""
        types = {(a.aval.shape, a.aval.dtype) for a in atoms}
        breaks = [k for k, (a, b) in enumerate(pairwise(atoms), 1) if not _one_value(a, b)]
        if len(breaks) <= _BREAKS:
            return _Column(atoms), breaks
        places = [self.place(a) for a in atoms]
        middle, after = places[len(atoms) // 2 - 1:len(atoms) // 2 + 1]
        if middle is not None and after is not None and middle[:2] == after[:2]:
            step = after.at - middle.at
            breaks = [k for k, (p, q) in enumerate(pairwise(places), 1) if p is None or q != p._replace(at=p.at + step)]
            if len(breaks) <= _BREAKS:
                return _Column(atoms, middle.array, middle.axis, places[0].at if places[0] else 0, step), breaks
        if len(types) > 1:
            return None, []
        return _Column(atoms, (), 0, 0, 1), []

    def place(self, atom: Any) -> Row | None:
        """The row that an atom is. A whole number is one, too: of the natural numbers, called None."""
        if atom.__class__ is not Literal:
            return self.rows.get(atom)
        return Row(None, 0, int(atom.val)) if atom.aval.shape == () and atom.aval.dtype == I32.dtype else None

    def worth(self, run: _Run) -> bool:
        """Whether a loop saves more than reading and writing rows costs."""
        each = [c for c in run.columns.values() if c.step is not None]
        if not each and not run.stacked:
            return True
        if any(c.array == () and c.atoms[0].aval.size * c.atoms[0].aval.dtype.itemsize > SMALL for c in each):
            return False
        # XLA compiles kernels once that differ in nothing but their place, and those that differ in a number one by one: calls
        # that take another row of an array each, or another number, gain the most.
        return run.count >= MANY or any(c.array is None or c.array == () and c.atoms[0].__class__ is Literal or
                                        c.array != () and c.array not in self.stacks for c in each)

    # --- writing it -----------------------------------------------------------------------------------------------
    def write(self, run: _Run) -> None:
        """The run as a `scan`, and behind it the equations that take its stacked results apart."""
        eqns, start, period, count = self.eqns, run.start, run.period, run.count
        source = eqns[start].source
        self.out += eqns[self.done:start]
        # The first group is the body, with variables of its own. A carried operand starts from what the first group reads in
        # its place, so one result is carried twice where two operands start differently; a result of the run is bound once.
        held: dict[Any, Var] = {}
        carried: dict[Any, tuple[Any, Var]] = {}  # (equation, result, what the first group reads) -> that, variable inside
        made: dict[tuple[int, int], Var] = {}
        turn = Var(I32)
        turns = False
        index: dict[tuple[int, int], Any] = {(0, 1): turn}
        read: dict[Any, Var] = {}
        body: list[Eqn] = []

        def number(first: int, step: int) -> Any:
            """`first + turn * step`."""
            if (first, step) not in index:
                v = turn
                for prim, n in ((prims.mul_p, step), (prims.add_p, first)):
                    if n != (prim is prims.mul_p):
                        v, old = Var(I32), v
                        body.append(Eqn(prim, [old, Literal(n, I32)], [v], {}, source))
                index[first, step] = v
            return index[first, step]

        def outside(c: _Column, source: Any) -> Any:
            nonlocal turns
            atom = c.atoms[0]
            if c.step is None:
                return atom if atom.__class__ is Literal else held.setdefault(atom, Var(atom.aval))
            turns = True
            if c.array is None:
                return number(c.first, c.step)
            key = (*map(id, c.atoms),) if c.array == () else (c.array, c.axis, c.first, c.step)
            if key not in read:
                array = c.array
                if array == () and all(a.__class__ is Literal for a in c.atoms):
                    array = np.array([a.val for a in c.atoms], atom.aval.dtype)
                    array = Literal(array, shaped(array.shape, array.dtype))
                else:
                    if array == ():
                        more, array = put_together(c.atoms, source)
                        self.out.extend(more)
                    array = held.setdefault(array, Var(array.aval))
                read[key] = Var(atom.aval)
                body.extend(take_row(array, c.axis, number(c.first, c.step), read[key], source))
            return read[key]

        for j, row in enumerate(run.slots):
            first = eqns[start + j]
            ins: list[Any] = []
            for i, ((kind, at, k), atom) in enumerate(zip(row, first.invars, strict=True)):
                if kind == _INNER:
                    ins.append(made[at, k])
                elif kind == _OUTSIDE:
                    ins.append(outside(run.columns[j, i], first.source))
                else:
                    whose = (at, k, id(atom))
                    if whose not in carried:
                        carried[whose] = atom, Var(eqns[start + at].outvars[k].aval)
                    ins.append(carried[whose][1])
            outs = [Var(v.aval) for v in first.outvars]
            made.update(((j, k), v) for k, v in enumerate(outs))
            body.append(first.replace(invars=ins, outvars=outs))
        last = start + (count - 1) * period
        state = [(a, v, made[at, k]) for (at, k, _), (a, v) in carried.items()]
        results: list[Var] = []
        for at, k, _ in carried:
            v = eqns[last + at].outvars[k]
            results.append(v if v not in results else Var(v.aval))
        if turns:
            after = Var(I32)
            body.append(Eqn(prims.add_p, [turn, Literal(1, I32)], [after], {}, source))
            state.append((Literal(0, I32), turn, after))
            results.append(Var(I32))
        stacks = [Var(shaped((count, *v.aval.shape), v.aval.dtype)) for v in (made[r] for r in run.stacked)]
        program = ClosedJaxpr(Jaxpr([], [*held.values(), *[v for _, v, _ in state]], body,
                                    [*[v for _, _, v in state], *[made[r] for r in run.stacked]]))
        self.out.append(Eqn(prims.scan_p, [*held, *[a for a, _, _ in state]], [*results, *stacks], dict(
            jaxpr=program, length=count, reverse=False, unroll=1, num_consts=len(held), num_carry=len(state)), source))
        self.done = last + period
        self.loops.append(run)
        self.stacks.update(stacks)
        for (j, k), stack in zip(run.stacked, stacks):
            for g in range(count):
                v = eqns[start + g * period + j].outvars[k]
                self.rows[v] = Row(stack, 0, g)
                if self.last_read.get(v, 0) >= self.done and v not in results:
                    taken = take_row(stack, 0, g, v, source)
                    self.unstacked[taken[0].outvars[0]] = run
                    self.out += taken


def _worth_taking_apart(eqns: list[Eqn], run: _Run, rows: int) -> bool:
    """Whether a loop saves more than it costs to take so many rows of its stacks one by one."""
    per_turn = sum(_equations(e) for e in eqns[run.start:run.start + run.period])
    return rows * _ROW <= run.count * per_turn


def _equations(e: Eqn) -> int:
    return sum([s.memo("lowering: equations", lambda s=s: sum(map(_equations, s.eqns))) for s in subprograms(e)]) or 1


def _one_place(s: Source | None, t: Source | None, lines: dict[tuple[int, int], int]) -> bool:
    """Whether two equations stand on one line. `lines` keeps lines by code object and instruction."""
    if s is t:
        return True
    if s is None or t is None or s.scope != t.scope or s.part != t.part or s.code != t.code:
        return False
    if s.lasti == t.lasti:
        return True
    # CPython puts another instruction in the frame once it has specialised a call that it has seen eight times.
    for x in (s, t):
        if (id(x.code), x.lasti) not in lines:
            lines[id(x.code), x.lasti] = x.line
    return lines[id(s.code), s.lasti] == lines[id(t.code), t.lasti]


def _alike(a: Eqn, b: Eqn, lines: dict[tuple[int, int], int]) -> bool:
    if a.primitive is not b.primitive or len(a.invars) != len(b.invars) or len(a.outvars) != len(b.outvars):
        return False
    if not _one_place(a.source, b.source, lines):
        return False
    if any(v.aval != w.aval for v, w in zip(a.outvars, b.outvars)):
        return False
    return a.params is b.params or a.params.keys() == b.params.keys() and all(
        _same(v, b.params[k]) for k, v in a.params.items())


def _same(v: Any, w: Any) -> bool:
    if v is w:
        return True
    try:
        return type(v) is type(w) and bool(v == w)
    except Exception:  # arrays, and whatever else does not say
        return False


def _one_value(a: Any, b: Any) -> bool:
    if a is b:
        return True
    return a.__class__ is Literal and b.__class__ is Literal and a.aval == b.aval and _same(a.val, b.val)
