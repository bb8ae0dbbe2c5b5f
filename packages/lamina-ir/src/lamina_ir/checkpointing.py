"""What a checkpointed program keeps, as two programs: one that hands out the values a policy chooses, one that takes them.

A policy looks into every op whose flow lets it (see docs/nested-programs.md): what it keeps of a program inside comes out
as residuals of a split do, stacked in a loop, in shared slots of branches.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .arguments import CLOSED, FUNCTION, ITEMS, optional, takes
from .flow import HELD, STACKED
from .primitive import Primitive
from .prims import control
from .prims.custom import Offload, to_memory_p
from .program import ClosedJaxpr, DropVar, Eqn, Jaxpr, Var, eqn_effectful
from .rewrite import map_subprograms, remember, rewrite
from .stages import as_scan, filled, hoist, slots, too_many
from .wiring import Slot, Wired

__all__ = ["Kept", "keep", "resume", "saved_p"]

# (value computed again, kept value): the kept one; its tangent is that of the computed one. Stands in `Kept.again` only.
saved_p = Primitive("saved", family="custom", infer=lambda computed, kept: computed, numpy=lambda computed, kept: kept)


class Kept(NamedTuple):
    """A program and what is kept of it.

    Attributes:
      forward: operands -> results, kept values.
      again: operands, kept values -> results; `saved` puts each kept value beside what it stands for.
    """

    forward: ClosedJaxpr
    again: ClosedJaxpr


@takes(program=CLOSED, missing=ITEMS)
def resume(program: ClosedJaxpr, missing: Sequence[bool] = ()) -> ClosedJaxpr:
    """The program with kept values instead of those they stand for; dead code goes afterwards.

    Args:
      program: the `again` of `keep`, or a program made of it.
      missing: for each operand, whether it is a kept value that is not there: what it stands for is computed after all.
        Default: all are there.
    Returns:
      A program of the same operands and results without `saved` equations.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = cos b in (c,) }")
    >>> again = keep(program, lambda prim, *avals, **params: prim.name == "sin").again
    >>> [e.primitive.name for e in again.jaxpr.eqns], [e.primitive.name for e in resume(again).jaxpr.eqns]
    (['sin', 'saved', 'cos'], ['sin', 'cos'])
    """
    seen: dict[Any, tuple[ClosedJaxpr, ClosedJaxpr]] = {}

    def resumed(program: ClosedJaxpr, missing: Sequence[bool]) -> ClosedJaxpr:
        gone = {v for v, m in zip(program.jaxpr.invars, missing) if m}
        key = id(program), tuple(missing) if gone else ()
        if key not in seen:
            seen[key] = program, rewrite(program, lambda e: change(e, gone), nested=False)
        return seen[key][1]

    def change(e: Eqn, gone: set[Any]) -> Any:
        if e.primitive is saved_p:
            return [], [e.invars[0 if e.invars[1] in gone else 1]]
        if gone.isdisjoint(e.invars):
            new = map_subprograms(e, whole)
            return None if new is e else [new]
        if e.primitive is to_memory_p:
            gone.update(e.outvars)
            return None
        w = Wired.of(e)
        bodies = [resumed(b.program, [e.invars[i] in gone for i in b.ins]) for b in w.bodies]
        one = isinstance(e.params[w.flow.body], ClosedJaxpr)
        return [e.replace(params={**e.params, w.flow.body: bodies[0] if one else tuple(bodies)})]

    whole = remember(lambda program: resumed(program, ()))
    return resumed(program, missing)


@takes(program=CLOSED, policy=optional(FUNCTION))
def keep(program: ClosedJaxpr, policy: Callable[..., Any] | None) -> Kept:
    """What a program keeps under a policy, as a program that hands it out and one that takes it.

    Args:
      program: of the checkpointed function.
      policy: called with a primitive, its operands' types and its params; says whether its results are kept. An
        `Offload` says that they are, in another memory. None keeps nothing.
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
    return _Keeper(policy).program(rewrite(program, _without_constants))


def _without_constants(e: Eqn) -> list[Eqn] | None:
    """A loop that stacks, and before it what its body computes from held values alone: that is kept once, not stacked."""
    if e.primitive.flow is None or not e.primitive.flow.length:
        return None
    ahead, e = hoist(e)
    return [*ahead, e] if ahead else None


class _Pair(NamedTuple):
    """One equation, both ways, with what it keeps inside."""

    forward: list[Eqn]
    again: list[Eqn]
    out: list[Var]  # kept, bound in `forward`
    into: list[Var]  # the same, read in `again`


class _Keeper:
    def __init__(self, policy: Callable[..., Any]) -> None:
        self.policy = policy
        self.seen: dict[int, tuple[ClosedJaxpr, Kept]] = {}  # programs that stand in many places are taken apart once

    def program(self, closed: ClosedJaxpr) -> Kept:
        if id(closed) not in self.seen:
            found = self.taken_apart(closed)
            count = len(found.again.jaxpr.invars) - len(closed.jaxpr.invars)
            self.seen[id(closed)] = closed, Kept(closed, closed) if too_many(closed, count) else found
        return self.seen[id(closed)][1]

    def taken_apart(self, closed: ClosedJaxpr) -> Kept:
        jaxpr = closed.jaxpr
        total = _Pair([], [], [], [])
        for e in jaxpr.eqns:
            pair = self.nested(e) or _Pair([e], [e], [], [])
            total.forward.extend(pair.forward)
            total.again.extend(pair.again)
            total.out.extend(pair.out)
            total.into.extend(pair.into)
            if e.primitive is control.platform_index_p:  # known when lowered, if it stands beside the branches it chooses
                continue
            choice = self.policy(e.primitive, *[a.aval for a in e.invars], **e.params)
            if choice:
                self.mark(choice, total)
        ends = jaxpr.outvars
        return Kept(ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, total.forward, [*ends, *total.out]), closed.consts),
                    ClosedJaxpr(Jaxpr(jaxpr.constvars, [*jaxpr.invars, *total.into], total.again, ends), closed.consts))

    def mark(self, choice: Any, total: _Pair) -> None:
        """Keep the results of the last equation."""
        last = total.again[-1]
        outvars = list(last.outvars)
        uses: list[Eqn] = []
        # `again` computes the result under another name, and `saved` binds the name that others read.
        for i, v in enumerate(total.forward[-1].outvars[:len(outvars)]):
            if isinstance(v, DropVar):
                continue
            kept = Var(v.aval)
            total.into.append(kept)
            if isinstance(choice, Offload):
                away, back = Var(v.aval), Var(v.aval)
                total.forward.append(Eqn(to_memory_p, [v], [away], {"memory_kind": choice.dst}))
                uses.append(Eqn(to_memory_p, [kept], [back], {"memory_kind": choice.src}))
                v, kept = away, back
            total.out.append(v)
            computed = Var(v.aval)
            uses.append(Eqn(saved_p, [computed, kept], [outvars[i]], {}))
            outvars[i] = computed
        total.again[-1] = Eqn(last.primitive, last.invars, outvars, last.params, last.source)
        total.again.extend(uses)

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
        group = w.flow.group(STACKED if w.flow.loops else HELD)
        outs = range(count + len(types))
        forward, again = [], []
        for k, mine, b in zip(kept, places, w.bodies):
            ends = k.forward.jaxpr.outvars
            forward.append((filled(k.forward, ends[:count], types, mine, ends[count:]), b.ins, outs))
            again.append((k.again, [*b.ins, *[n + at for at in mine]], range(count)))
        out, into = [[Var(w.type_stacked(a)) for a in types] for _ in range(2)]
        first = w.write(w.operands(), [*w.results(), *[Slot(1, a) for a in types]], forward)
        second = w.write([*w.operands(), *[Slot(group, a) for a in types]], w.results(), again)  # type: ignore[arg-type]
        return _Pair([first.eqn(stacking.primitive, stacking.invars, [*e.outvars, *out], e.source)],
                     [second.eqn(stacking.primitive, [*stacking.invars, *into], e.outvars, e.source)], out, into)
