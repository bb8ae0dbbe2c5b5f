"""Programs of one position of an axis that runs in turns, cut into phases at the collectives over it.

What a program computes without asking other positions is one phase: a `scan` over the turns. A collective needs all turns of
what comes before it, so what follows is another phase:

    phase 0                  x -> z = f(x);  total += z          z is kept, since phase 1 reads it; a sum is carried
    between                  total -> t                          once for all: what does not differ between positions
    phase 1                  z, t -> y                           y is a result

What is kept has all positions at once, so it is as little as can be: an equation waits for the phase that reads it where that
keeps less (`_put_off`), and what a few cheap ones make of what is there anyway they make again (`_with_repeated`).

Sums and extremes are carried. Other collectives (gathers, permutations, ...) are done between two phases, on what all positions
have. Loops of the program with collectives over the axis in their bodies stay loops, of bodies that are cut.

The derivative keeps what phases read, and computes again what they make of it: when a program is staged, each phase becomes a
checkpoint (`with_checkpoints`).
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lamina_batching.extend import BatchAxis, Batched, batch_program, flow_batch, materialise
from lamina_ir import (ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Source, Var, dce, dtypes, eqn_axis_names, eqn_effectful,
                       inline_calls, prims, rewrite, shaped, subprograms)
from lamina_ir.extend import stack_depth, typed_program
from lamina_tracing import lax
from lamina_tracing.extend import bind, eval_jaxpr, now, scalar, stage, typeof

from .contracting import contracted

__all__ = ["in_turns", "with_checkpoints"]

Names = frozenset[Any]

_COMBINE: dict[Any, tuple[Any, Any, Any]] = {  # how turns are put together, what they start from, and all at once
    prims.psum_p: (lax.add, lambda d: 0, lax.reduce_sum), prims.pmax_p: (lax.max, prims.lowest, lax.reduce_max),
    prims.pmin_p: (lax.min, prims.highest, lax.reduce_min)}


class _Cut(NamedTuple):
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
        read = [v for eqns in self.inside for v in _reads(eqns)]
        read += [v for eqns in self.between for e in eqns if id(e) not in less for v in e.invars]
        for v in [*read, *results]:
            if v in self.phase:
                found[self.phase[v]][v] = None
        return list(map(list, found))


def _cut(closed: ClosedJaxpr, names: Names, opened: bool) -> _Cut:
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
        if not asks and not effect and _differs(e, names):
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
    whole = {v for _, e in others if not _is_sum(e, names) for v in e.invars}.union(jaxpr.outvars)
    _put_off(mine, others, phase, whole)
    if opened:
        mine = [new for e in mine for new in _without_checkpoint(e, phase)]
    between: list[list[Eqn]] = [[] for _ in range(count + 1)]
    for at, e in others:
        between[at].append(e)
    return _Cut(phase, _with_repeated(mine, phase, whole, count), between)


_FAR = 64  # equations that are looked at together


def _put_off(mine: Sequence[Eqn], others: Sequence[tuple[int, Eqn]], phase: dict[Any, int], whole: set[Any]) -> None:
    """Equations wait for the first phase that reads what they make, where no more has to be kept for them than for that.
    What is `whole` is kept in any case."""
    due: dict[Any, int] = {}  # the phase by which something has to be made
    for at, e in others:
        for v in e.invars:
            due[v] = min(at - 1, due.get(v, at))
    made: dict[Any, Eqn] = {v: e for e in mine for v in e.outvars}
    readers: dict[Any, Counter[int]] = {}  # in which phases something is read, and by how many equations
    for e in mine:
        for v in {*e.invars}:
            readers.setdefault(v, Counter())[_phase_of(e, phase)] += 1

    def first(e: Eqn) -> int | None:
        """The first phase that reads what an equation makes."""
        asked = [p for v in e.outvars for p, n in readers.get(v, {}).items() if n]
        return min([*asked, *[due[v] for v in e.outvars if v in due]], default=None)

    def move(e: Eqn, old: int, new: int) -> None:
        for v in {*e.invars}:
            readers[v][old] -= 1
            readers[v][new] += 1

    def lost(v: Any) -> bool:
        """Whether what a phase makes is read by none behind it."""
        return v not in whole and not any(n and p > phase[v] for p, n in readers.get(v, {}).items())

    for e in reversed(mine):
        new = first(e)
        if new is None or new <= _phase_of(e, phase):
            continue
        # The equation, and with it those whose results nothing else needs before, until what they read is no more.
        group, old = [e], {id(e): _phase_of(e, phase)}
        gain = _bytes([v for v in e.outvars if v not in whole and not any(
            n and p > new for p, n in readers.get(v, {}).items())])
        edge = {v for v in e.invars if v in phase and lost(v)}
        move(e, old[id(e)], new)
        while edge and _bytes(edge) > gain and len(group) < _FAR:
            more = next((made[v] for v in edge if (first(made[v]) or 0) >= new), None)
            if more is None:
                break
            group.append(more)
            old[id(more)] = _phase_of(more, phase)
            edge = edge.difference(more.outvars) | {v for v in more.invars if v in phase and lost(v)}
            move(more, old[id(more)], new)
        moves = gain and _bytes(edge) <= gain
        for e in group:
            if moves:
                phase.update(dict.fromkeys(e.outvars, new))
            else:
                move(e, new, old[id(e)])


_FEW = 16  # cheap equations that are repeated for one value


def _with_repeated(mine: Sequence[Eqn], phase: dict[Any, int], whole: set[Any], count: int) -> list[list[Eqn]]:
    """The equations of each phase, and with them those of earlier ones that are cheap to repeat, where what they read is there:
    then what they make is not kept. What is `whole` is kept in any case."""
    later = whole | {v for e in mine for v in e.invars if v in phase and phase[v] < _phase_of(e, phase)}
    recipes: dict[Any, tuple[int, ...] | None] = {}  # how to make a value of what is kept; (): it is; None: by too much work
    for i, e in enumerate(mine):
        parts = [recipes[v] for v in e.invars if v in recipes]
        recipe = None
        if _is_cheap(e) and None not in parts:
            recipe = tuple(sorted({i}.union(*parts)))  # type: ignore[arg-type]
        for v in e.outvars:
            small = recipe is not None and len(recipe) <= _FEW and v not in whole
            recipes[v] = recipe if small else () if v in later else None
    inside: list[set[int]] = [set() for _ in range(count)]
    for i, e in enumerate(mine):
        at = _phase_of(e, phase)
        inside[at].add(i)
        for a in e.invars:
            if a in phase and phase[a] < at:
                inside[at].update(recipes[a] or ())
    return [[mine[i] for i in sorted(numbers)] for numbers in inside]


def _without_checkpoint(e: Eqn, phase: dict[Any, int]) -> list[Eqn]:
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
        phase.update(dict.fromkeys(outs, _phase_of(e, phase)))
        found.append(b.replace(invars=[env.get(a, a) for a in b.invars], outvars=outs))
    return found


def _is_cheap(e: Eqn) -> bool:
    return e.primitive is prims.axis_index_p or e.primitive.family in ("elementwise", "shape") and not e.primitive.subprograms


def _phase_of(e: Eqn, phase: dict[Any, int]) -> int:
    return max([phase[v] for v in e.outvars], default=0)


def _bytes(values: Iterable[Any]) -> int:
    return sum([v.aval.size * v.aval.dtype.itemsize for v in values])


def _is_sum(e: Eqn, names: Names) -> bool:
    """Whether it needs no more than what turns can carry: a total, or an extreme."""
    return e.primitive in _COMBINE and e.params["axis_index_groups"] is None and not names.isdisjoint(e.params["axes"])


def _differs(e: Eqn, names: Names) -> bool:
    return any(not names.isdisjoint(a.aval.over) for a in (*e.invars, *e.outvars))


def _reads(eqns: Sequence[Eqn]) -> list[Any]:
    """What equations read that they do not bind."""
    own = {v for e in eqns for v in e.outvars}
    return [v for v in dict.fromkeys(a for e in eqns for a in e.invars) if type(v) is not Literal and v not in own]


# --- the named program: phases are checkpoints --------------------------------------------------------------------
def with_checkpoints(closed: ClosedJaxpr, names: Names) -> ClosedJaxpr:
    """A program of one position whose phases, over axes that run in turns, are checkpoints.

    Args:
      closed: the program.
      names: the axes that run in turns.
    Returns:
      A program.

    >>> from lamina_ir import parse
    >>> text = ("{ lambda ; a:f32[]{i}. let b:f32[]{i} = sin a c:f32[] = psum[axes=('i',) axis_index_groups=None] b "
    ...         "d:f32[]{i} = cos b e:f32[]{i} = mul d c in (e,) }")
    >>> [e.primitive.name for e in with_checkpoints(parse(text), frozenset("i")).eqns]
    ['remat', 'psum', 'remat']
    """
    with stack_depth.roomy():
        def holds(e: Eqn) -> bool:
            return not names.isdisjoint(eqn_axis_names(e))

        if any(map(holds, closed.jaxpr.eqns)):
            closed = inline_calls(closed, holds)
        cut = _cut(closed, names, False)
        eqns = list(cut.between[0])
        for k, (mine, outs, after) in enumerate(zip(cut.inside, cut.kept(closed.jaxpr.outvars), cut.between[1:])):
            if mine:
                ins = _reads(mine)
                eqns.append(Eqn(prims.remat_p, ins, outs, {
                    "call_jaxpr": _program(mine, ins, outs), "differentiated": False, "name": f"phase {k}", "policy": None,
                    "prevent_cse": False}))
            eqns += after
        return ClosedJaxpr(Jaxpr(closed.jaxpr.constvars, closed.jaxpr.invars, eqns, closed.jaxpr.outvars), closed.consts)


def _program(eqns: Sequence[Eqn], ins: Sequence[Any], outs: Sequence[Any]) -> ClosedJaxpr:
    """Equations as a program with variables of its own."""
    new = {v: Var(v.aval) for v in ins}
    for e in eqns:
        new.update([(v, type(v)(v.aval)) for v in e.outvars])
    made = [Eqn(e.primitive, [a if type(a) is Literal else new[a] for a in e.invars], [new[v] for v in e.outvars], e.params,
                e.source) for e in eqns]
    return ClosedJaxpr(Jaxpr([], [new[v] for v in ins], made, [new[v] for v in outs]))


# --- the placed program: phases are scans -------------------------------------------------------------------------
def in_turns(closed: ClosedJaxpr, axis: BatchAxis, batched: tuple[bool, ...],
             all_out: bool | tuple[bool, ...] = False) -> Batched:
    """As `batch_program`, with the positions of the axis one after the other.

    Args:
      closed: the program of one turn.
      axis: how many turns there are, and the name that collectives over them have.
      batched: which arguments have a slice for each turn, along axis 0.
      all_out: have that in every result (or those marked).
    Returns:
      A program over all turns and which results have a slice for each: see `Batched`.

    >>> from lamina_ir import parse
    >>> turns = in_turns(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), BatchAxis(3, "i"), (True,))
    >>> turns.program.eqns[0].primitive.name
    'scan'
    """
    with stack_depth.roomy():
        key = ("in turns", axis, batched, all_out, tuple([(f.name, f.size) for f in now.axes]))
        return closed.derived(key, lambda: _Turns(closed, axis, batched).whole(all_out))


_CALLS = frozenset([prims.xla_call_p, prims.remat_p, prims.custom_jvp_call_p, prims.custom_vjp_call_p])
_FILLS = frozenset([prims.broadcast_in_dim_p, prims.iota_p])


def _opened(closed: ClosedJaxpr, names: Names) -> ClosedJaxpr:
    """The program with the calls in their place that hold collectives over the axes, whatever derivatives or rules they have.
    Of a checkpoint the phases are checkpoints."""
    def holds(e: Eqn) -> bool:
        return e.primitive in _CALLS and not names.isdisjoint(eqn_axis_names(e))

    mine: set[Any] = set()

    def as_call(e: Eqn) -> list[Eqn] | None:
        if not holds(e):
            return None
        body = e.params["call_jaxpr"]
        body = with_checkpoints(body, names) if e.primitive is prims.remat_p else body
        mine.add(body)
        params = {**prims.xla_call_p.defaults, "call_jaxpr": body, "name": e.params["name"]}
        return [e.replace(primitive=prims.xla_call_p, params=params)]

    if not any(map(holds, closed.jaxpr.eqns)):
        return closed
    return inline_calls(rewrite(closed, as_call, nested=holds), lambda e: e.params["call_jaxpr"] in mine)


class _Turns:
    """One way through a program, phase by phase. `values` has what is known: of what differs between turns, all slices."""

    def __init__(self, closed: ClosedJaxpr, axis: BatchAxis, batched: tuple[bool, ...]) -> None:
        self.given, self.axis, self.batched = closed, axis, batched
        self.further = frozenset([f.name for f in now.axes]) - {axis.name}
        marks = [a.over | {axis.name} if on else a.over - {axis.name} for a, on in zip(closed.in_avals, batched)]
        typed = typed_program(closed, marks, self.further | {axis.name})
        self.closed = dce(_opened(typed, frozenset([axis.name])), instantiate=True)[0]
        self.cut = _cut(self.closed, frozenset([axis.name]), True)
        # Sums and extremes that turns carry: of each phase (op, axes of the operand, variable), and the totals once known.
        sums = [e for es in self.cut.between for e in es if _is_sum(e, frozenset([axis.name]))]
        self.sums = set(map(id, sums))
        self.carried: list[dict[Any, Eqn]] = [{} for _ in self.cut.inside]
        for e in sums:
            for v in e.invars:
                if v in self.cut.phase:
                    self.carried[self.cut.phase[v]][e.primitive, _places(e), v] = e
        self.kept = self.cut.kept(self.closed.jaxpr.outvars, sums)
        self.totals: dict[Any, Any] = {}
        self.fills = {e.outvars[0]: e for es in self.cut.between for e in es
                      if e.primitive in _FILLS and not self.differs(e.outvars[0])}
        self.values: dict[Any, Any] = {}

    def _is_number(self, e: Eqn) -> bool:
        return e.primitive is prims.axis_index_p and e.params["axis_name"] == self.axis.name

    def differs(self, a: Any) -> bool:
        return type(a) is not Literal and self.axis.name in a.aval.over

    def _value(self, a: Any) -> Any:
        return a.val if type(a) is Literal else self.values[a]

    def whole(self, all_out: bool | tuple[bool, ...]) -> Batched:
        jaxpr, n = self.closed.jaxpr, self.axis.size
        wanted = all_out if isinstance(all_out, tuple) else (all_out,) * len(jaxpr.outvars)
        flags = tuple([w or self.differs(v) for v, w in zip(jaxpr.outvars, wanted)])

        def run(*args: Any) -> list[Any]:
            self.values.update(zip([*jaxpr.constvars, *jaxpr.invars], [*self.closed.consts, *args]))
            outer = now.source
            try:  # each has the user's line
                for k, others in enumerate(self.cut.between):
                    for e in others:
                        now.source = e.source or outer
                        self.values.update(self._sums(e) if id(e) in self.sums else self._all_turns(e))
                    if k < len(self.cut.inside):
                        now.source = self._line(k) or outer
                        self._phase(k)
            finally:
                now.source = outer
            return [materialise(self._value(v), None, n) if on and not self.differs(v) else self._value(v)
                    for v, on in zip(jaxpr.outvars, flags)]

        overs = [a.over - {self.axis.name} for a in self.given.in_avals]
        avals = [(shaped((n, *a.shape), a.dtype, a.weak_type) if on else a).differing(over)
                 for a, on, over in zip(self.given.in_avals, self.batched, overs)]
        program = stage(run, avals)[0]
        return Batched(typed_program(program, overs, self.further), flags)

    # --- between phases ---
    def _all_turns(self, e: Eqn) -> dict[Any, Any]:
        """The results of an equation on what all turns have, or on what they share."""
        ins, outs = _reads([e]), [v for v in e.outvars if type(v) is not DropVar]
        one, args, on = _program([e], ins, outs), [self.values[v] for v in ins], tuple(map(self.differs, ins))
        asks = self.axis.name in eqn_axis_names(e)
        if not asks and not any(on):
            return dict(zip(outs, eval_jaxpr(one, args)))
        flow = e.primitive.flow
        if asks and flow is not None and not (flow.whole or flow.again or flow.rule):
            given = [self._value(a) for a in e.invars]
            at = [0 if self.differs(a) else None for a in e.invars]
            found, dims = flow_batch(e.primitive, self.axis, given, at, e.params, in_turns)
            pairs = [(v, o, d) for v, o, d in zip(e.outvars, found, dims) if type(v) is not DropVar]
        else:
            made = batch_program(one, self.axis, on)
            pairs = [(v, o, 0 if d else None) for v, o, d in zip(outs, eval_jaxpr(made.program, args), made.batched_out)]
        return {v: self._in_place(v, o, d) for v, o, d in pairs}

    def _in_place(self, v: Any, o: Any, dim: int | None) -> Any:
        if self.differs(v):
            return materialise(o, dim, self.axis.size)
        return o if dim is None else lax.index_in_dim(o, 0, dim, False)  # the same in all turns

    def _sums(self, e: Eqn) -> dict[Any, Any]:
        """A sum or extreme of what turns have carried, or of what all have; then over other axes, as it is."""
        names = tuple([n for n in e.params["axes"] if n != self.axis.name and type(n) is not int])
        places, whole, parts = _places(e), _COMBINE[e.primitive][2], []
        for a in e.invars:
            x = self.totals.get((e.primitive, places, a))
            if x is None:
                x = self._value(a)
                if self.differs(a):
                    x = whole(x, (0, *[n + 1 for n in places]))
                else:
                    x = whole(x, places) if places else x
                    x = lax.mul(x, scalar(self.axis.size, typeof(x).dtype)) if e.primitive is prims.psum_p else x
            parts.append(x)
        return dict(zip(e.outvars, bind(e.primitive, *parts, axes=names, axis_index_groups=None) if names else parts))

    # --- phases ---
    def _line(self, k: int) -> Source | None:
        """The first line of a phase, in a scope that tells its loop from the user's: profiles and plans show it."""
        first = _first_line(self.cut.inside[k])
        scope = f"turns/phase_{k}"
        return first and Source(first.code, first.lasti, f"{first.scope}/{scope}" if first.scope else scope, first.part)

    def _phase(self, k: int) -> None:
        """One scan over the turns."""
        carried, kept = self.carried[k], self.kept[k]
        outs = list(dict.fromkeys([*[v for _, _, v in carried], *kept]))
        if not outs:
            return
        stacked, last = [[v for v in kept if self.differs(v) is on] for on in (True, False)]
        numbers = [e.outvars[0] for e in self.cut.inside[k] if self._is_number(e)]
        eqns = self._with_fills([e for e in self.cut.inside[k] if not self._is_number(e)])
        reads = [v for v in _reads(eqns) if v not in numbers]
        slices, same = [v for v in reads if self.differs(v)], [v for v in reads if not self.differs(v)]
        program = contracted(_program(eqns, [*same, *slices, *numbers], outs))
        shared = [self.values[v] for v in same]

        def turn(before: list[Any], xs: Any) -> Any:
            number, rows = xs
            found = dict(zip(outs, eval_jaxpr(program, [*shared, *rows, *[number] * len(numbers)])))
            totals = [_added(e, t, found[v]) for t, ((_, _, v), e) in zip(before, carried.items())]
            return [*totals, *[found[v] for v in last]], [found[v] for v in stacked]

        index = lax.iota(np.dtype("int32"), self.axis.size) if numbers else None
        # What does not differ between turns, though its equation does, is that of the last one.
        start = [_start(e, v.aval) for (_, _, v), e in carried.items()]
        start += [lax.full(v.aval.shape, 0, v.aval.dtype) for v in last]
        ends, ys = lax.scan(turn, start, (index, [self.values[v] for v in slices]), self.axis.size)
        for key, total in zip(carried, ends):
            self.totals[key] = lax.convert_element_type(total, key[2].aval.dtype)
        self.values.update(zip([*last, *stacked], [*ends[len(carried):], *ys]))

    def _with_fills(self, eqns: list[Eqn]) -> list[Eqn]:
        """Equations with those in front that only repeat what they read: they are made in each turn, for next to nothing."""
        found: set[Any] = set()
        todo = _reads(eqns)
        for v in todo:
            if v in self.fills and v not in found:
                found.add(v)
                todo += [a for a in self.fills[v].invars if type(a) is not Literal]
        return [*[e for v, e in self.fills.items() if v in found], *eqns]


def _first_line(eqns: Sequence[Eqn]) -> Source | None:
    """The first of the user's lines. Calls of phases, and loops over turns, are of no line but those inside."""
    for e in eqns:
        inside = [_first_line(s.jaxpr.eqns) for s in subprograms(e)] if e.primitive.subprograms else []
        found = next(filter(None, inside), e.source)
        if found:
            return found
    return None


def _places(e: Eqn) -> tuple[int, ...]:
    """The axes of the operand that a sum or extreme is taken over, besides names."""
    return tuple([n for n in e.params["axes"] if type(n) is int])


def _start(e: Eqn, aval: Any) -> Any:
    """What a total is before the first turn. Small floats are summed in a wider type."""
    places = _places(e)
    shape = tuple([n for i, n in enumerate(aval.shape) if i not in places])
    dtype = aval.dtype
    if e.primitive is prims.psum_p and dtypes.is_float(dtype) and dtype.itemsize < 4:
        dtype = np.dtype("float32")
    return lax.full(shape, _COMBINE[e.primitive][1](dtype), dtype)


def _added(e: Eqn, total: Any, x: Any) -> Any:
    combine, _, whole = _COMBINE[e.primitive]
    x = lax.convert_element_type(x, typeof(total).dtype)
    return combine(total, whole(x, _places(e)) if _places(e) else x)
