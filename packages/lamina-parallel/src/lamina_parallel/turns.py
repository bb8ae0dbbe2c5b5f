"""The phases of a program as scans over the turns of an axis, and what stands between them.

Sums and extremes are carried. Other collectives (gathers, permutations, ...) are done between two phases, on what all positions
have. Loops of the program with collectives over the axis in their bodies stay loops, of bodies that are cut.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from lamina_batching.extend import BatchAxis, Batched, batch_program, flow_batch, materialise
from lamina_ir import (ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Source, Var, dce, dtypes, eqn_axis_names, prims, shaped,
                       subprograms)
from lamina_ir.extend import stack_depth, typed_program
from lamina_tracing import lax
from lamina_tracing.extend import bind, eval_jaxpr, now, scalar, stage, typeof

from .contracting import contracted
from .phase_checkpoints import opened
from .phases import Names, cut_at, is_sum, program_of, reads_of
from .scattering import scattered

__all__ = ["in_turns"]

_COMBINE: dict[Any, tuple[Any, Any, Any]] = {  # how turns are put together, what they start from, and all at once
    prims.psum_p: (lax.add, lambda d: 0, lax.reduce_sum), prims.pmax_p: (lax.max, prims.lowest, lax.reduce_max),
    prims.pmin_p: (lax.min, prims.highest, lax.reduce_min)}
_FILLS = frozenset([prims.broadcast_in_dim_p, prims.iota_p])


def in_turns(closed: ClosedJaxpr, axis: BatchAxis, batched: tuple[bool, ...],
             all_out: bool | tuple[bool, ...] = False, inside: bool = False) -> Batched:
    """As `batch_program`, with the positions of the axis one after the other.

    Args:
      closed: the program of one turn.
      axis: how many turns there are, and the name that collectives over them have.
      batched: which arguments have a slice for each turn, along axis 0.
      all_out: have that in every result (or those marked).
      inside: the turns are those of a loop in another one, so that arguments are slices.
    Returns:
      A program over all turns and which results have a slice for each: see `Batched`.

    >>> from lamina_ir import parse
    >>> turns = in_turns(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), BatchAxis(3, "i"), (True,))
    >>> turns.program.eqns[0].primitive.name
    'scan'
    """
    with stack_depth.roomy():
        key = ("in turns", axis, batched, all_out, inside, tuple([(f.name, f.size) for f in now.axes]))
        return closed.derived(key, lambda: _Turns(closed, axis, batched, inside).whole(all_out))


class _Turns:
    """One way through a program, phase by phase. `values` has what is known: of what differs between turns, all slices."""

    def __init__(self, closed: ClosedJaxpr, axis: BatchAxis, batched: tuple[bool, ...], inside: bool) -> None:
        self.given, self.axis, self.batched = closed, axis, batched
        self.further = frozenset([f.name for f in now.axes]) - {axis.name}
        marks = [a.over | {axis.name} if on else a.over - {axis.name} for a, on in zip(closed.in_avals, batched)]
        typed = typed_program(closed, marks, self.further | {axis.name})
        self.closed = dce(opened(typed, frozenset([axis.name])), instantiate=True)[0]
        if inside:
            self.closed = _sums_of_copies(self.closed, frozenset([axis.name]))
        self.cut = cut_at(self.closed, frozenset([axis.name]), True)
        # Sums and extremes that turns carry: of each phase (op, axes of the operand, variable), and the totals once known.
        sums = [e for es in self.cut.between for e in es if is_sum(e, frozenset([axis.name]))]
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
        ins, outs = reads_of([e]), [v for v in e.outvars if type(v) is not DropVar]
        one, args, on = program_of([e], ins, outs), [self.values[v] for v in ins], tuple(map(self.differs, ins))
        asks = self.axis.name in eqn_axis_names(e)
        if not asks and not any(on):
            return dict(zip(outs, eval_jaxpr(one, args)))
        flow = e.primitive.flow
        if asks and flow is not None and not (flow.whole or flow.again or flow.rule):
            given = [self._value(a) for a in e.invars]
            at = [0 if self.differs(a) else None for a in e.invars]
            found, dims = flow_batch(e.primitive, self.axis, given, at, e.params, partial(in_turns, inside=True))
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
        reads = [v for v in reads_of(eqns) if v not in numbers]
        slices, same = [v for v in reads if self.differs(v)], [v for v in reads if not self.differs(v)]
        program = contracted(scattered(program_of(eqns, [*same, *slices, *numbers], outs)))
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
        todo = reads_of(eqns)
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


def _sums_of_copies(closed: ClosedJaxpr, names: Names) -> ClosedJaxpr:
    """The program with sums and extremes of what it is given as those of copies: these are made turn by turn, so the sum is
    carried. Of a whole array it is one op, but of a slice that another loop reads that would need all turns' at once."""
    jaxpr = closed.jaxpr
    copies: dict[Any, Any] = {}
    eqns: list[Eqn] = []
    given = {v for v in jaxpr.invars if not names.isdisjoint(v.aval.over)}
    for e in jaxpr.eqns:
        if is_sum(e, names) and not given.isdisjoint(e.invars):
            for v in e.invars:
                if v in given and v not in copies:
                    copies[v] = Var(v.aval)
                    eqns.append(Eqn(prims.copy_p, [v], [copies[v]], {}, e.source))
            e = e.replace(invars=[a if type(a) is Literal else copies.get(a, a) for a in e.invars])
        eqns.append(e)
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), closed.consts) if copies else closed


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
