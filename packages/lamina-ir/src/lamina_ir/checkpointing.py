"""What a checkpointed program keeps, as two programs: one that hands out the values a policy chooses, one that takes them.

A policy looks into every op whose flow lets it (see docs/nested-programs.md): what it keeps of a program inside comes out
as residuals of a split do, stacked in a loop, in shared slots of branches.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from .flow import HELD, STACKED
from .primitive import Primitive
from .prims import control
from .prims.custom import Offload, to_memory_p
from .program import ClosedJaxpr, DropVar, Eqn, Jaxpr, Var, eqn_effectful
from .rewrite import rewrite
from .stages import as_scan, filled, hoist, slots
from .wiring import Slot, Wired

__all__ = ["Kept", "keep", "resume", "saved_p"]

# (value computed again, kept value): the kept one; its tangent is that of the computed one. Stands in `Kept.again` only.
saved_p = Primitive("saved", family="custom", infer=lambda computed, kept: computed, numpy=lambda computed, kept: kept)


class Kept(NamedTuple):
    """A program and what is kept of it.

    Attributes:
      forward: operands -> results, kept values.
      again: operands, kept values -> results; `saved` puts each kept value beside what it stands for.
      values: per kept value, the numbers that `only` takes it by: several where branches share a slot for theirs.
    """

    forward: ClosedJaxpr
    again: ClosedJaxpr
    values: Sequence[frozenset[int]] = ()


def resume(program: ClosedJaxpr) -> Any:
    """The program with kept values instead of those they stand for; dead code goes afterwards.

    Args:
      program: the `again` of `keep`, or a program made of it.
    Returns:
      A program of the same operands and results without `saved` equations.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = cos b in (c,) }")
    >>> again = keep(program, lambda prim, *avals, **params: prim.name == "sin").again
    >>> [e.primitive.name for e in again.jaxpr.eqns], [e.primitive.name for e in resume(again).jaxpr.eqns]
    (['sin', 'saved', 'cos'], ['sin', 'cos'])
    """
    return rewrite(program, lambda e: ([], [e.invars[1]]) if e.primitive is saved_p else None)


def keep(program: ClosedJaxpr, policy: Callable[..., Any] | None, only: Collection[int] | None = None) -> Kept:
    """What a program keeps under a policy, as a program that hands it out and one that takes it.

    Args:
      program: of the checkpointed function.
      policy: called with a primitive, its operands' types and its params; says whether its results are kept. An
        `Offload` says that they are, in another memory. None keeps nothing.
      only: numbers (`Kept.values`) of the values to keep, of those the policy chooses; default: all.
    Returns:
      `(forward, again)`: operands -> results and kept values, and operands and kept values -> results.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = cos b in (c,) }")
    >>> kept = keep(program, lambda prim, *avals, **params: prim.name == "sin")
    >>> len(kept.forward.out_avals), len(kept.again.in_avals)
    (2, 2)
    """
    if policy is None:
        return Kept(program, program)
    return _Keeper(policy, only).program(rewrite(program, _without_constants))


def _without_constants(e: Eqn) -> list[Eqn] | None:
    """A loop that stacks, and before it what its body computes from held values alone: that is kept once, not stacked."""
    if e.primitive.flow is None or not e.primitive.flow.length:
        return None
    ahead, e = hoist(e)
    return None if ahead is None else [ahead.eqn(), e]


class _Pair(NamedTuple):
    """One equation, both ways, with what it keeps inside."""

    forward: list[Eqn]
    again: list[Eqn]
    out: list[Var]  # kept, bound in `forward`
    into: list[Var]  # the same, read in `again`
    values: Sequence[frozenset[int]]


class _Keeper:
    def __init__(self, policy: Callable[..., Any], only: Collection[int] | None) -> None:
        self.policy, self.only, self.count = policy, only, 0
        # Programs that stand in many places, unless only some is kept: with what number theirs began, and how many they are.
        self.seen: dict[int, tuple[ClosedJaxpr, Kept, int, int]] = {}

    def program(self, closed: ClosedJaxpr) -> Kept:
        start = self.count
        if id(closed) in self.seen:  # the same values, under numbers of their own in each place
            _, found, first, total = self.seen[id(closed)]
            self.count += total
            return found._replace(values=[frozenset([n - first + start for n in v]) for v in found.values])
        found = self.taken_apart(closed)
        if self.only is None:
            self.seen[id(closed)] = closed, found, start, self.count - start
        return found

    def taken_apart(self, closed: ClosedJaxpr) -> Kept:
        jaxpr = closed.jaxpr
        # first, second: equations of `forward` and of `again`. out, into: what the one hands out and the other takes,
        # pairwise.
        first: list[Eqn] = []
        second: list[Eqn] = []
        out: list[Var] = []
        into: list[Var] = []
        values: list[frozenset[int]] = []
        for e in jaxpr.eqns:
            pair = self.nested(e) or _Pair([e], [e], [], [], [])
            out += pair.out
            into += pair.into
            values += pair.values
            first += pair.forward
            second += pair.again
            if e.primitive is control.platform_index_p:  # known when lowered, if it stands beside the branches it chooses
                continue
            choice = self.policy(e.primitive, *[a.aval for a in e.invars], **e.params)
            if choice:
                self.mark(choice, first, second, out, into, values)
        ends = jaxpr.outvars
        return Kept(ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, first, [*ends, *out]), closed.consts),
                    ClosedJaxpr(Jaxpr(jaxpr.constvars, [*jaxpr.invars, *into], second, ends), closed.consts), values)

    def mark(self, choice: Any, first: list[Eqn], second: list[Eqn], out: list[Var], into: list[Var],
             values: list[frozenset[int]]) -> None:
        """Keep the results of the last equation."""
        last = second[-1]
        outvars = list(last.outvars)
        uses: list[Eqn] = []
        # `again` computes the result under another name, and `saved` binds the name that others read. Values are counted
        # whether they are kept or not, so that `only` means the same values as when nothing was left out.
        for i, v in enumerate(first[-1].outvars[:len(outvars)]):
            if isinstance(v, DropVar):
                continue
            self.count += 1
            if self.only is not None and self.count - 1 not in self.only:
                continue
            kept = Var(v.aval)
            into.append(kept)
            if isinstance(choice, Offload):
                away, back = Var(v.aval), Var(v.aval)
                first.append(Eqn(to_memory_p, [v], [away], {"memory_kind": choice.dst}))
                uses.append(Eqn(to_memory_p, [kept], [back], {"memory_kind": choice.src}))
                v, kept = away, back
            out.append(v)
            values.append(frozenset([self.count - 1]))
            computed = Var(v.aval)
            uses.append(Eqn(saved_p, [computed, kept], [outvars[i]], {}))
            outvars[i] = computed
        second[-1] = Eqn(last.primitive, last.invars, outvars, last.params, last.source)
        second += uses

    def nested(self, e: Eqn) -> _Pair | None:
        """An equation with programs, whose kept values come out as residuals do; None when nothing inside is kept. A bounded
        loop is a scan of idle steps; one without a bound has nowhere to stack what is kept."""
        flow = e.primitive.flow
        if flow is None or flow.whole or flow.again or flow.rule or eqn_effectful(e):
            return None
        stacking = as_scan(e) if flow.loops and not Wired.of(e).stacks else e
        if stacking is None:
            return None
        # What bodies hand out becomes a stacked result of the loop, or a slot shared by branches; in `again` an operand like
        # it.
        w = Wired.of(stacking)
        count, n = w.n_results, len(stacking.invars)
        kept = [self.program(b.program) for b in w.bodies]
        types, places = slots([k.forward.out_avals[count:] for k in kept])
        if not types:
            return None
        values = [frozenset[int]()] * len(types)
        for k, mine in zip(kept, places):
            for at, numbers in zip(mine, k.values):
                values[at] |= numbers
        group = w.flow.group(STACKED if w.flow.loops else HELD)
        outs = range(count + len(types))
        forward, again = [], []
        for k, mine, b in zip(kept, places, w.bodies):
            ends = k.forward.jaxpr.outvars
            forward.append((filled(k.forward, ends[:count], types, mine, ends[count:]), b.ins, outs))
            again.append((k.again, [*b.ins, *[n + at for at in mine]], range(count)))
        out, into = [[Var(w.type_stacked(a)) for a in types] for _ in range(2)]
        first = w.write(w.operands(), [*w.results(), *[Slot(1)] * len(types)], forward)
        second = w.write([*w.operands(), *[Slot(group, a) for a in types]], w.results(), again)  # type: ignore[arg-type]
        return _Pair([first.eqn(stacking.primitive, stacking.invars, [*e.outvars, *out], e.source)],
                     [second.eqn(stacking.primitive, [*stacking.invars, *into], e.outvars, e.source)], out, into, values)
