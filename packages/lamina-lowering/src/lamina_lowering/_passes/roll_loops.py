"""Roll repeated calls of one function into a `scan`.

`for _ in range(300): x = f(x + 1)` traces 300 equations that call one program. XLA has no calls on CPUs: it copies the
body into each call site and compiles every copy. As a loop the body is compiled once: the row `growth_calls`
of benchmarks/run.py measures this. It runs as fast, because XLA would not fuse a body that is more than elementwise
arithmetic with the code around it anyway. Elementwise bodies are left unrolled: XLA makes one kernel of them.

A *run* is a sequence of `n` groups of `p` equations each, where the first equation of each group calls the same
program. Equation j of every group has the same primitive, params, types and source line. Each of its operands is

- *inner*: a result of an equation of its own group, the same one in each group;
- *carried*: a result of an equation of the previous group, the same one in each group; the first group may read any
  value;
- *outside*: a value from before the run, or a literal: either one constant for all groups, or a different value in
  each.

Such a run becomes a `scan` of length n over the carried values. Values that differ between groups are rows of an array,
read at the index of the iteration. Often they are rows already: of an array that the program slices, or of the stacked
results of an earlier loop, in forward or reverse order. For example the backward half of a gradient reads what the
forward half saved. Otherwise they are stacked first. Results that are read after the run are stacked, too. A run that
does not match (a value passed over two groups) is left as calls. So is a run for which stacking costs more than it
saves (`_Roller.is_worth_it`).
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lamina_ir import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Source, Var, eqn_has_effects, prims, shaped, subprograms

from .row_slices import I32, VIEW_PRIMITIVES, RowRef, stack_values, hoist_row_reads, reuse_stacked_arrays, read_row

__all__ = ["MAX_STACKED_BYTES", "MIN_GROUPS", "MIN_STACKED_GROUPS", "REWRITTEN_PRIMITIVES", "roll_repeated_calls"]

MIN_GROUPS = 16  # minimum number of groups of a loop; shorter runs compile fast enough, and XLA may fuse across their calls
_FUSED = frozenset(("elementwise", "special", "shape", "indexing", "random_bits"))
_NEVER = frozenset(("collectives", "callbacks"))
# minimum number of groups if results are stacked: such a loop takes as long to compile as 30 to 50 calls
MIN_STACKED_GROUPS = 48
MAX_STACKED_BYTES = 4096  # maximum bytes of a value that is stacked for the loop, because stacking copies it twice
# compile cost of reading one row of a stack after the loop, in equations of a body: it is a kernel of its own
_ROW_COST = 32
# maximum irregularities in the values that the groups read: the first and last group often read other values
_MAX_BREAKS = 3
_MAX_PASSES = 8

# Primitives that this pass emits or removes. If a rule of one of these is overridden, the pass is skipped, so that
# the rule sees the program as it was written.
REWRITTEN_PRIMITIVES = frozenset((*VIEW_PRIMITIVES, prims.scan_p, prims.add_p, prims.mul_p, prims.dynamic_slice_p,
                                  prims.dynamic_update_slice_p, prims.concatenate_p, prims.transpose_p))

_INNER, _CARRIED, _OUTSIDE = range(3)
_OUT = (_OUTSIDE, 0, 0)
_FAR = (-1, 0, 0)  # result of an earlier group than the previous one
OperandKind = tuple[int, int, int]


class _Run(NamedTuple):
    """The groups `[start + k * period, start + (k + 1) * period)`, for k < count.

    Attributes:
      slots: `slots[j]` has the kind of each operand of equation j: `(_INNER, j, result)`, `(_CARRIED, j, result)` or `_OUT`.
      columns: `columns[j, i]` has the values that the groups read at operand i of equation j, if its kind is `_OUT`.
      stacked: the results `(j, result)` that are read after the run.
    """

    start: int
    period: int
    count: int  # type: ignore[assignment]  # hides tuple.count
    slots: list[list[OperandKind]]
    columns: dict[tuple[int, int], _Column]
    stacked: list[tuple[int, int]]


class _Column(NamedTuple):
    """The values that the groups read from outside at one operand: `atoms[k]` in group k.

    If all are one value, `step` is None. Otherwise the value of group k is row `first + k * step` of `array` along
    `axis`. If `array` is None, the value is that number itself; if `array` is (), the atoms must be stacked.
    """

    atoms: list[Any]
    array: Any = None
    axis: int = 0
    first: int = 0
    step: int | None = None


def roll_repeated_calls(eqns: list[Eqn], outvars: Sequence[Atom]) -> list[Eqn]:
    """Return the same program with its runs as loops, in time linear in the equations and their operands."""
    if not _find_repeated_calls(eqns):
        return eqns
    ordered, rows = hoist_row_reads(eqns, outvars)
    # A loop that costs more than it saves stays calls in the next pass, which then looks again at the readers of its
    # stacks.
    calls: set[Var] = set()
    for _ in range(_MAX_PASSES):
        rolling = _Roller(ordered, outvars, dict(rows), calls)
        made = rolling.program()
        if not rolling.wasteful:
            return made if rolling.loops else eqns
        calls |= rolling.wasteful
    return eqns


def _find_repeated_calls(eqns: list[Eqn]) -> list[list[int]]:
    """Return, for each program that is called often enough, the positions of its calls. Most programs have none."""
    positions: dict[int, list[int]] = {}
    for i, e in enumerate(eqns):
        if e.primitive is prims.xla_call_p:
            positions.setdefault(id(e.params["call_jaxpr"]), []).append(i)
    return [at for at in positions.values()
            if len(at) >= MIN_GROUPS and _classify_program(eqns[at[0]].params["call_jaxpr"]) == (True, False)]


def _classify_program(closed: ClosedJaxpr) -> tuple[bool, bool]:
    """Return whether a program contains equations that XLA does not fuse, and whether it contains equations that must
    not move."""
    heavy = never = closed.jaxpr.effectful
    for e in closed.jaxpr.eqns:
        h, n = _classify(e)
        heavy |= h
        never |= n
    return heavy, never


def _classify(e: Eqn) -> tuple[bool, bool]:
    nested = [s.memo("lowering: kinds", lambda s=s: _classify_program(s)) for s in subprograms(e)]
    return (any(h for h, _ in nested) or not nested and e.primitive.family not in _FUSED,
            any(n for _, n in nested) or e.primitive.family in _NEVER or e.primitive in (prims.xla_pmap_p, prims.shard_map_p))


def _find_evenly_spaced(at: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (first, distance, count) of the longest stretches of evenly spaced positions."""
    first = 0
    while first < len(at) - 1:
        period, last = at[first + 1] - at[first], first + 1
        while last + 1 < len(at) and at[last + 1] - at[last] == period:
            last += 1
        if last - first + 1 >= MIN_GROUPS:
            yield at[first], period, last - first + 1
        first = last


class _Roller:
    """One pass over a program in order; each run becomes a loop.

    `rows` grows by the rows that loops stack, so that later runs find them. `calls` has the first results of runs that
    stay calls.
    """

    def __init__(self, eqns: list[Eqn], outvars: Sequence[Atom], rows: dict[Atom, RowRef], calls: set[Var]) -> None:
        self.eqns = eqns
        self.rows = rows
        self.calls = calls
        self.made_at: dict[Atom, tuple[int, int]] = {
            v: (i, k) for i, e in enumerate(eqns) for k, v in enumerate(e.outvars)}
        self.last_read = {v: i for i, e in enumerate(eqns) for v in e.invars if v.__class__ is not Literal}
        self.last_read.update((v, len(eqns)) for v in outvars if v.__class__ is not Literal)
        self.lines: dict[tuple[int, int], int] = {}
        self.out: list[Eqn] = []
        self.done = 0  # equations before this index have been emitted
        self.loops: list[_Run] = []
        self.wasteful: set[Var] = set()
        self.stacks: set[Var] = set()
        self.unstacked: dict[Var | None, _Run] = {}  # slice that reads a result from its loop's stack -> the run

    def program(self) -> list[Eqn]:
        """Return the whole program. Afterwards `wasteful` has the first results of runs that should have stayed calls.
        """
        # Candidates are calls of one program at even distances: the distance is the period.
        for start, period, count in sorted(
                s for at in _find_repeated_calls(self.eqns) for s in _find_evenly_spaced(at)):
            # Runs do not overlap: the first to fit takes its equations.
            while start >= self.done and count >= MIN_GROUPS:
                examined = self.find_runs(start, period, count)
                start, count = start + examined * period, count - examined
        self.out += self.eqns[self.done:]
        # Loops read rows from the array itself, so slices that only loops read are dropped.
        eqns = reuse_stacked_arrays(self.out, self.rows, MIN_GROUPS)
        read = {v for v, at in self.last_read.items() if at == len(self.eqns)}
        needed = []
        reads_of_stacks: dict[int, int] = {}
        for e in reversed(eqns):
            v = e.outvars[0] if e.outvars else None
            if v not in read and e.primitive in VIEW_PRIMITIVES:
                continue
            needed.append(e)
            read.update(e.invars)
            if v in self.unstacked:
                reads_of_stacks[self.unstacked[v].start] = reads_of_stacks.get(self.unstacked[v].start, 0) + 1
        for run in self.loops:
            if not _is_worth_reading(self.eqns, run, reads_of_stacks.get(run.start, 0)):
                self.wasteful.add(self.eqns[run.start].outvars[0])
        return needed[::-1]

    # --- matching runs --------------------------------------------------------------------------------------------
    def find_runs(self, start: int, period: int, count: int) -> int:
        """Emit the runs that begin at `start` with groups of `period` equations; return the number of groups that were
        examined."""
        eqns = self.eqns
        count = min(count, (len(eqns) - start) // period)
        if count < MIN_GROUPS:
            return count
        # Operand kinds are taken from the second group: in the first one carried operands still come from outside.
        slots = [[self.operand_kind(a, start + period, period, start) for a in eqns[start + period + j].invars]
                 for j in range(period)]
        if any(_FAR in row for row in slots) or any(
                eqn_has_effects(e) or _classify(e)[1] for e in eqns[start:start + period]):
            return 1
        groups = 0
        while groups < count and self.group_matches(slots, start, period, groups):
            groups += 1
        if groups >= MIN_GROUPS:
            self.emit_runs(start, period, groups, slots)
        return max(groups, 1)

    def operand_kind(self, atom: Atom, first: int, period: int, start: int) -> OperandKind:
        """Return the kind of an operand of an equation whose group begins at `first`, in a run that begins at `start`.
        """
        at, k = (-1, 0) if atom.__class__ is Literal else self.made_at.get(atom, (-1, 0))
        if at >= first:
            return _INNER, at - first, k
        if at < start:
            return _OUT
        return (_CARRIED, at - first + period, k) if at >= first - period else _FAR

    def group_matches(self, slots: list[list[OperandKind]], start: int, period: int, group: int) -> bool:
        """Return whether a group has the same equations and operand kinds as the first one."""
        eqns, first = self.eqns, start + group * period
        for j, wanted in enumerate(slots):
            model, e = eqns[start + j], eqns[first + j]
            if not _is_same_equation(model, e, self.lines) or len(e.invars) != len(wanted):
                return False
            for w, atom in zip(wanted, e.invars):
                if w[0] == _CARRIED and not group:
                    # The first group reads the initial value of the carry, which must have the type of the carry.
                    a, b = atom.aval, eqns[start + w[1]].outvars[w[2]].aval
                    if self.operand_kind(atom, first, period, start) != _OUT or a.shape != b.shape or a.dtype != b.dtype:
                        return False
                elif self.operand_kind(atom, first, period, start) != w:
                    return False
        return True

    def emit_runs(self, start: int, period: int, groups: int, slots: list[list[OperandKind]]) -> None:
        """Emit the runs in matching groups. They are split where outside values are irregular, or where results are
        read after the run."""
        eqns = self.eqns
        carried = {s[1:] for row in slots for s in row if s[0] == _CARRIED}
        if groups < MIN_GROUPS or not carried or eqns[start].outvars[0] in self.calls:
            return
        end = start + groups * period
        read_later = [[(j, k) for j in range(period) for k, v in enumerate(eqns[start + g * period + j].outvars)
                 if self.last_read.get(v, 0) >= end] for g in range(groups)]
        groups_read_later = [g + 1 for g, found in enumerate(read_later[:-1]) if found]
        columns = {}
        cuts: set[int] = set()
        if len(groups_read_later) * MIN_GROUPS <= groups:  # a few results read individually: runs end there
            cuts.update(groups_read_later)
            groups_read_later = []
        for j, row in enumerate(slots):
            for i, s in enumerate(row):
                if s == _OUT:
                    column, breaks = self.classify_column([eqns[start + g * period + j].invars[i] for g in range(groups)])
                    if column is None:
                        return
                    columns[j, i] = column
                    cuts.update(breaks)
        stacked = sorted({r for g in groups_read_later for r in read_later[g - 1]})
        if not cuts and any(r not in carried and r not in stacked for r in read_later[-1]):
            cuts.add(groups - 1)  # a result that is neither carried nor stacked excludes the last group from the loop
        if cuts:
            ends = [0, *sorted(cuts), groups]
            for a, b in zip(ends, ends[1:]):
                self.emit_runs(start + a * period, period, b - a, slots)
            return
        run = _Run(start, period, groups, slots, columns, stacked)
        if self.is_worth_it(run):
            self.emit_scan(run)

    def classify_column(self, atoms: list[Atom]) -> tuple[_Column | None, list[int]]:
        """Return how the groups' values at one operand are related, and the groups before which the relation is
        interrupted."""
        types = {(a.aval.shape, a.aval.dtype) for a in atoms}
        breaks = [k for k, (a, b) in enumerate(pairwise(atoms), 1) if not _is_same_value(a, b)]
        if len(breaks) <= _MAX_BREAKS:
            return _Column(atoms), breaks
        rows = [self.row_of(a) for a in atoms]
        middle, after = rows[len(atoms) // 2 - 1:len(atoms) // 2 + 1]
        if middle is not None and after is not None and middle[:2] == after[:2]:
            step = after.at - middle.at
            breaks = [k for k, (p, q) in enumerate(pairwise(rows), 1) if p is None or q != p._replace(at=p.at + step)]
            if len(breaks) <= _MAX_BREAKS:
                return _Column(atoms, middle.array, middle.axis, rows[0].at if rows[0] else 0, step), breaks
        if len(types) > 1:
            return None, []
        return _Column(atoms, (), 0, 0, 1), []

    def row_of(self, atom: Atom) -> RowRef | None:
        """Return the array row that an atom is; None if it is none. An integer literal is row `n` of the natural
        numbers (array None)."""
        if atom.__class__ is not Literal:
            return self.rows.get(atom)
        return RowRef(None, 0, int(atom.val)) if atom.aval.shape == () and atom.aval.dtype == I32.dtype else None

    def is_worth_it(self, run: _Run) -> bool:
        """Return whether a loop saves more than reading and writing rows costs."""
        varying = [c for c in run.columns.values() if c.step is not None]
        if not varying and not run.stacked:
            return True
        if any(c.array == () and c.atoms[0].aval.size * c.atoms[0].aval.dtype.itemsize > MAX_STACKED_BYTES for c in varying):
            return False
        # XLA compiles kernels once if they differ only in their buffers, and separately if they differ in a
        # constant. So calls that read another row of an array each, or another number, gain the most from a loop.
        return run.count >= MIN_STACKED_GROUPS or any(c.array is None or c.array == () and c.atoms[0].__class__ is Literal or
                                        c.array != () and c.array not in self.stacks for c in varying)

    # --- emitting -------------------------------------------------------------------------------------------------
    def emit_scan(self, run: _Run) -> None:
        """Emit the run as a `scan`, followed by the slices of its stacked results."""
        eqns, start, count = self.eqns, run.start, run.count
        body = _ScanBody(eqns, run)
        self.out += [*eqns[self.done:start], *body.before]
        last = start + (count - 1) * run.period
        results: list[Var] = []
        for at, k, _ in body.carried:
            v = eqns[last + at].outvars[k]
            results.append(v if v not in results else Var(v.aval))
        if body.uses_iteration:
            results.append(Var(I32))
        stacks = [Var(shaped((count, *v.aval.shape), v.aval.dtype)) for v in (body.made[r] for r in run.stacked)]
        program, operands = body.close(run.stacked)
        self.out.append(Eqn(prims.scan_p, operands, [*results, *stacks], dict(
            jaxpr=program, length=count, reverse=False, unroll=1, num_consts=len(body.consts), num_carry=len(results)),
            body.source))
        self.done = last + run.period
        self.loops.append(run)
        self.stacks.update(stacks)
        for (j, k), stack in zip(run.stacked, stacks):
            for g in range(count):
                v = eqns[start + g * run.period + j].outvars[k]
                self.rows[v] = RowRef(stack, 0, g)
                if self.last_read.get(v, 0) >= self.done and v not in results:
                    slices = read_row(stack, 0, g, v, body.source)
                    self.unstacked[slices[0].outvars[0]] = run
                    self.out += slices


class _ScanBody:
    """The body of a run's `scan`: the first group, with fresh variables.

    A carried operand starts from the value that the first group reads. If two operands start from different values, one
    result is carried twice, because each result of the run is bound only once.

    Attributes:
      before: equations that stack operands, to be emitted before the loop.
      consts: value that all groups read -> its variable in the body.
      carried: (equation, result, id of the initial value) -> (initial value, variable in the body).
      made: (equation, result) -> its variable in the body.
      uses_iteration: whether the body reads the number of the iteration, which is then carried too.
      source: the source line of the run.
    """

    def __init__(self, eqns: list[Eqn], run: _Run) -> None:
        self.source = eqns[run.start].source
        self.before: list[Eqn] = []
        self.consts: dict[Atom, Var] = {}
        self.carried: dict[tuple[int, int, int], tuple[Atom, Var]] = {}
        self.made: dict[tuple[int, int], Var] = {}
        self.uses_iteration = False
        self._eqns: list[Eqn] = []
        self._iteration = Var(I32)
        self._indices: dict[tuple[int, int], Var] = {(0, 1): self._iteration}
        self._rows_read: dict[tuple[object, ...], Var] = {}
        for j, kinds in enumerate(run.slots):
            self._add_equation(eqns, run, j, kinds)

    def _add_equation(self, eqns: list[Eqn], run: _Run, j: int, kinds: list[OperandKind]) -> None:
        """Add equation `j` of the first group."""
        first = eqns[run.start + j]
        ins: list[Atom] = []
        for i, ((kind, at, k), atom) in enumerate(zip(kinds, first.invars, strict=True)):
            if kind == _INNER:
                ins.append(self.made[at, k])
            elif kind == _OUTSIDE:
                ins.append(self._read_outside(run.columns[j, i], first.source))
            else:
                carry = (at, k, id(atom))
                if carry not in self.carried:
                    self.carried[carry] = atom, Var(eqns[run.start + at].outvars[k].aval)
                ins.append(self.carried[carry][1])
        outs = [Var(v.aval) for v in first.outvars]
        self.made.update(((j, k), v) for k, v in enumerate(outs))
        self._eqns.append(first.replace(invars=ins, outvars=outs))

    def _read_outside(self, column: _Column, source: Source | None) -> Atom:
        """Return the operand of an iteration that reads a value from outside the run."""
        atom = column.atoms[0]
        if column.step is None:
            return atom if atom.__class__ is Literal else self.consts.setdefault(atom, Var(atom.aval))
        self.uses_iteration = True
        if column.array is None:
            return self._emit_index(column.first, column.step)
        key = ((*map(id, column.atoms),) if column.array == ()
               else (column.array, column.axis, column.first, column.step))
        if key not in self._rows_read:
            array = column.array
            if array == () and all(a.__class__ is Literal for a in column.atoms):
                values = np.array([a.val for a in column.atoms], atom.aval.dtype)
                array = Literal(values, shaped(values.shape, values.dtype))
            else:
                if array == ():
                    eqns, array = stack_values(column.atoms, source)
                    self.before += eqns
                array = self.consts.setdefault(array, Var(array.aval))
            self._rows_read[key] = out = Var(atom.aval)
            index = self._emit_index(column.first, column.step)
            self._eqns += read_row(array, column.axis, index, out, source)
        return self._rows_read[key]

    def _emit_index(self, first: int, step: int) -> Var:
        """Emit `first + iteration * step`."""
        if (first, step) not in self._indices:
            v = self._iteration
            for prim, n in ((prims.mul_p, step), (prims.add_p, first)):
                if n != (prim is prims.mul_p):  # not a multiplication by 1, not an addition of 0
                    v, old = Var(I32), v
                    self._eqns.append(Eqn(prim, [old, Literal(n, I32)], [v], {}, self.source))
            self._indices[first, step] = v
        return self._indices[first, step]

    def close(self, stacked: list[tuple[int, int]]) -> tuple[ClosedJaxpr, list[Atom]]:
        """Return the body's program and the operands of the `scan`: constants, then initial values of the carries."""
        state = [(initial, v, self.made[at, k]) for (at, k, _), (initial, v) in self.carried.items()]
        if self.uses_iteration:
            after = Var(I32)
            self._eqns.append(Eqn(prims.add_p, [self._iteration, Literal(1, I32)], [after], {}, self.source))
            state.append((Literal(0, I32), self._iteration, after))
        program = ClosedJaxpr(Jaxpr([], [*self.consts.values(), *[v for _, v, _ in state]], self._eqns,
                                    [*[v for _, _, v in state], *[self.made[r] for r in stacked]]))
        return program, [*self.consts, *[initial for initial, _, _ in state]]


def _is_worth_reading(eqns: list[Eqn], run: _Run, rows: int) -> bool:
    """Return whether a loop saves more than it costs to read `rows` rows of its stacks individually."""
    per_iteration = sum(_count_equations(e) for e in eqns[run.start:run.start + run.period])
    return rows * _ROW_COST <= run.count * per_iteration


def _count_equations(e: Eqn) -> int:
    return sum([s.memo("lowering: equations", lambda s=s: sum(map(_count_equations, s.eqns)))
                for s in subprograms(e)]) or 1


def _is_same_line(s: Source | None, t: Source | None, lines: dict[tuple[int, int], int]) -> bool:
    """Return whether two equations come from one source line. `lines` caches lines by code object and instruction."""
    if s is t:
        return True
    if s is None or t is None or s.scope != t.scope or s.part != t.part or s.code != t.code:
        return False
    if s.lasti == t.lasti:
        return True
    # CPython replaces an instruction by a specialised one after a call has run eight times, so `lasti` of one line
    # may differ.
    for x in (s, t):
        if (id(x.code), x.lasti) not in lines:
            lines[id(x.code), x.lasti] = x.line
    return lines[id(s.code), s.lasti] == lines[id(t.code), t.lasti]


def _is_same_equation(a: Eqn, b: Eqn, lines: dict[tuple[int, int], int]) -> bool:
    if a.primitive is not b.primitive or len(a.invars) != len(b.invars) or len(a.outvars) != len(b.outvars):
        return False
    if not _is_same_line(a.source, b.source, lines):
        return False
    if any(v.aval != w.aval for v, w in zip(a.outvars, b.outvars)):
        return False
    return a.params is b.params or a.params.keys() == b.params.keys() and all(
        _is_equal(v, b.params[k]) for k, v in a.params.items())


def _is_equal(v: object, w: object) -> bool:
    if v is w:
        return True
    try:
        return type(v) is type(w) and bool(v == w)
    except Exception:  # comparison of arrays is ambiguous or raises
        return False


def _is_same_value(a: Atom, b: Atom) -> bool:
    if a is b:
        return True
    return a.__class__ is Literal and b.__class__ is Literal and a.aval == b.aval and _is_equal(a.val, b.val)
