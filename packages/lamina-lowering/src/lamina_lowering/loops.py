"""Calls of one function, again and again, as one loop.

`for _ in range(300): x = f(x + 1)` stages 300 equations that call one program. XLA has no calls on CPUs: it copies the
body into each of them and compiles every copy, 1.7 ms for a product and a fused loop, 500 ms in all. As a loop the body
is compiled once (20 ms in all) and runs as fast, because a body that is more than elementwise arithmetic is not fused with
its neighbours anyway. Elementwise bodies stay as they are: of those XLA makes one kernel.

A *run* is a stretch of `n` groups of `p` equations each, the first of each group a call of the same program. Equation j of
every group has one primitive, params and types, and stands on one line of the user's program. Each of its operands is

- *inner*: result of an equation of its own group, the same one in each group;
- *carried*: result of an equation of the group before, the same one in each group; the first group reads anything;
- *held*: one value from before the run, or equal literals.

No result of a group is read after the run but those of the last. Then the run is a `scan` of length n over the carried
values. What does not fit (a value handed on over two groups, results collected in a list) stays as it is.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, eqn_effectful, prims, subprograms

__all__ = ["LEAST", "rolled"]

LEAST = 16  # groups from which a loop is made; shorter runs compile fast enough and may gain from being seen whole
_FUSED = frozenset(("elementwise", "special", "shape", "indexing", "random_bits"))
_NEVER = frozenset(("collectives", "callbacks"))
_INNER, _CARRIED, _HELD = range(3)


class _Run(NamedTuple):
    """Groups `[start + k * period, start + (k + 1) * period)`; `slots[j]` says what the operands of equation j are:
    `(_INNER, j, result)`, `(_CARRIED, j, result)` or `(_HELD, atom, 0)`."""

    start: int
    period: int
    count: int  # type: ignore[assignment]  # tuple.count is not wanted here
    slots: list[list[tuple[int, Any, int]]]


def rolled(eqns: list[Eqn], outvars: Sequence[Any]) -> list[Eqn]:
    """The same program with its runs as loops. Time is linear in the equations and their operands."""
    places: dict[Any, list[int]] = {}
    for i, e in enumerate(eqns):
        if e.primitive is prims.xla_call_p:
            places.setdefault(id(e.params["call_jaxpr"]), []).append(i)
    # Candidates are calls of one program at even distances: the distance is the period. Most programs have none and end here.
    often = [at for at in places.values() if len(at) >= LEAST and _kinds(eqns[at[0]].params["call_jaxpr"]) == (True, False)]
    if not often:
        return eqns
    made_at = {v: (i, k) for i, e in enumerate(eqns) for k, v in enumerate(e.outvars)}
    last_read = {v: i for i, e in enumerate(eqns) for v in e.invars if v.__class__ is not Literal}
    last_read.update((v, len(eqns)) for v in outvars if v.__class__ is not Literal)
    runs: list[_Run] = []
    taken = 0
    for start, period, count in sorted(stretch for at in often for stretch in _evenly_spaced(at)):
        # Runs do not overlap: the first to fit takes its equations.
        if start >= taken:
            run = _run(eqns, start, period, count, made_at, last_read)
            if run is not None:
                runs.append(run)
                taken = run.start + run.period * run.count
    out: list[Eqn] = []
    done = 0
    for run in runs:
        out += eqns[done:run.start]
        out.append(_loop(eqns, run))
        done = run.start + run.period * run.count
    return out + eqns[done:]


def _kinds(closed: ClosedJaxpr) -> tuple[bool, bool]:
    """Whether a program holds what XLA fuses with nothing around it, and whether something that must stay in its place."""
    heavy = never = closed.jaxpr.effectful
    for e in closed.jaxpr.eqns:
        nested = [s.memo("lowering: kinds", lambda s=s: _kinds(s)) for s in subprograms(e)]
        heavy |= any(h for h, _ in nested) or not nested and e.primitive.family not in _FUSED
        never |= any(n for _, n in nested) or e.primitive.family in _NEVER or e.primitive is prims.xla_pmap_p
    return heavy, never


def _evenly_spaced(at: list[int]) -> list[tuple[int, int, int]]:
    """(first, distance, count) of the longest stretches of evenly spaced positions."""
    found = []
    first = 0
    while first < len(at) - 1:
        period, last = at[first + 1] - at[first], first + 1
        while last + 1 < len(at) and at[last + 1] - at[last] == period:
            last += 1
        if last - first + 1 >= LEAST:
            found.append((at[first], period, last - first + 1))
        first = last
    return found


def _run(eqns: list[Eqn], start: int, period: int, count: int, made_at: dict[Any, tuple[int, int]],
         last_read: dict[Any, int]) -> _Run | None:
    """The run that begins at `start`, with as many groups as fit; None when these are too few."""
    if start + 2 * period > len(eqns):
        return None

    def operand(i: int, group: int, atom: Any) -> tuple[int, Any, int]:
        """What an operand of equation i is, seen from that equation's group."""
        at, result = (-1, 0) if atom.__class__ is Literal else made_at.get(atom, (-1, 0))
        first = start + group * period
        if at >= first:
            return _INNER, at - first, result
        if at >= first - period and group:
            return _CARRIED, at - first + period, result
        return _HELD, atom, 0

    slots = []
    for j in range(period):  # the second group says what the operands are
        one, two = eqns[start + j], eqns[start + period + j]
        if eqn_effectful(one) or one.primitive.family in _NEVER or not _alike(one, two):
            return None
        slots.append([operand(start + period + j, 1, a) for a in two.invars])
    groups = 0
    while start + (groups + 1) * period <= len(eqns) and groups < count and all(
            _fits(slots[j], [operand(start + groups * period + j, groups, a)
                             for a in eqns[start + groups * period + j].invars], groups)
            and _alike(eqns[start + j], eqns[start + groups * period + j]) for j in range(period)):
        groups += 1
    carried = {(j, k) for row in slots for kind, j, k in row if kind == _CARRIED}
    for k in range(groups):  # results read after the run are those of its last group
        mine = range(start + k * period, start + (k + 1) * period)
        if any(last_read.get(v, 0) >= start + groups * period for i in mine for v in eqns[i].outvars):
            last = k + 1 == groups and all(last_read.get(v, 0) < start + groups * period or (i - mine[0], n) in carried
                                           for i in mine for n, v in enumerate(eqns[i].outvars))
            groups = k + 1 if last else k  # a result that is not carried keeps its group out of the loop
            break
    return _Run(start, period, groups, slots) if groups >= LEAST and carried else None


def _alike(a: Eqn, b: Eqn) -> bool:
    if a.primitive is not b.primitive or len(a.invars) != len(b.invars) or len(a.outvars) != len(b.outvars):
        return False
    s, t = a.source, b.source
    if s is not t and (s is None or t is None or (s.code, s.lasti, s.scope, s.part) != (
            t.code, t.lasti, t.scope, t.part)):
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


def _fits(wanted: list[tuple[int, Any, int]], found: list[tuple[int, Any, int]], group: int) -> bool:
    """Whether operands are what those of the second group are. What is carried comes from anywhere in the first."""
    return len(wanted) == len(found) and all(
        w == f if w[0] == _INNER else f[0] == _HELD if w[0] == _CARRIED and not group else
        w == f if w[0] == _CARRIED else f[0] == _HELD and _one_value(w[1], f[1]) for w, f in zip(wanted, found))


def _one_value(a: Any, b: Any) -> bool:
    if a is b:
        return True
    return a.__class__ is Literal and b.__class__ is Literal and a.aval == b.aval and _same(a.val, b.val)


def _loop(eqns: list[Eqn], run: _Run) -> Eqn:
    """The `scan` that a run is."""
    start, period, slots = run.start, run.period, run.slots
    # The first group is the body, with variables of its own. A carried operand starts from what the first group reads in its
    # place, so one result is carried twice where two operands start differently; a result of the run is bound once.
    held: dict[Any, Var] = {}
    carried: dict[Any, tuple[Any, Var]] = {}  # (equation, result, what the first group reads) -> that, variable inside
    made: dict[tuple[int, int], Var] = {}
    body = []
    for j, row in enumerate(slots):
        first = eqns[start + j]
        ins: list[Any] = []
        for (kind, at, k), atom in zip(row, first.invars, strict=True):
            if kind == _INNER:
                ins.append(made[at, k])
            elif kind == _HELD:
                ins.append(atom if atom.__class__ is Literal else held.setdefault(atom, Var(atom.aval)))
            else:
                whose = (at, k, id(atom))
                if whose not in carried:
                    carried[whose] = atom, Var(eqns[start + at].outvars[k].aval)
                ins.append(carried[whose][1])
        outs = [Var(v.aval) for v in first.outvars]
        made.update(((j, k), v) for k, v in enumerate(outs))
        body.append(first.replace(invars=ins, outvars=outs))
    last = start + (run.count - 1) * period
    results: list[Var] = []
    for at, k, _ in carried:
        v = eqns[last + at].outvars[k]
        results.append(v if v not in results else Var(v.aval))
    program = ClosedJaxpr(Jaxpr([], [*held.values(), *[v for _, v in carried.values()]], body,
                                [made[at, k] for at, k, _ in carried]))
    return Eqn(prims.scan_p, [*held, *[a for a, _ in carried.values()]], results, dict(
        jaxpr=program, length=run.count, reverse=False, unroll=1, num_consts=len(held), num_carry=len(carried)),
        eqns[start].source)
