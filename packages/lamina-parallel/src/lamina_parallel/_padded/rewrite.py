"""Rewrite a per-member program into a per-slot program.

There are `devices * rounds` slots. The first `num_members` slots hold the members of the mapped axis; the rest are
padding.

Collectives over the axis become collectives over two axes, devices and rounds, that include only the slots of members.
A padding slot repeats the computation of the last member to the bit: it has the same operands and axis index, and
receives the same values from collectives. So it produces a NaN only if the last member does. Its results are discarded:
sums exclude it and gathers drop it. In several processes each process has its own slots, whose padding repeats its own
last member. The page docs/design/padded-maps.md lists how each primitive is rewritten.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from lamina_ir import Atom, ClosedJaxpr, Eqn, Var, prims, rewrite, subprograms
from lamina_ir.typing import AxisName, Value
from lamina_tracing.extend import AxisFrame, extend_axis_env, trace_state, stage

from .axis_index_operand import find_rule_programs
from .collective_rules import RULES, SlotCollective, cast_like
from .slot_layout import SlotLayout

__all__ = ["rewrite_for_slots"]


def rewrite_for_slots(closed: ClosedJaxpr, layout: SlotLayout) -> ClosedJaxpr:
    """Rewrite the program of one member into that of one slot.

    Args:
      closed: the program of one member, with collectives over the axis.
      layout: the slots of the axis.
    Returns:
      A program of the same operands and results, with collectives over the two axes of `layout.axis_parts`.
    Raises:
      NotImplementedError: a primitive communicates over the axis, and no rule rewrites it.
    """
    rewriter = _SlotRewriter(layout, _find_axis_sizes(closed))
    return rewrite(closed, rewriter.rewrite_equation, nested=rewriter.enter)


class _SlotRewriter:
    """Rewrites the equations of a program of one member, and of the programs nested in it.

    Args:
      layout: the slots of the axis.
      sizes: the sizes of all axes in scope; None for a name that is bound with several sizes.
    """

    def __init__(self, layout: SlotLayout, sizes: Mapping[AxisName, int | None]) -> None:
        self.layout, self.sizes = layout, sizes
        self.frames = [AxisFrame(p, n) for p, n in zip(layout.axis_parts, (layout.devices, layout.rounds))]
        # First results of equations whose derivative must stop at padding. They are recorded before the rules of the
        # equations are rewritten, because these may contain the same equations.
        self.stops_gradient: set[Atom] = set()

    def enter(self, e: Eqn) -> bool:
        """Return whether to rewrite the nested programs of an equation."""
        if _has_communicating_rules(e, self.layout.name):
            self.stops_gradient.add(e.outvars[0])
        inner = [name for name, _ in e.primitive.region_signature.axes(e.params)]  # type: ignore[union-attr]
        return self.layout.name not in inner  # a nested map that binds the same name shadows it

    def rewrite_equation(self, e: Eqn) -> list[Eqn] | None:
        """Return the equations that replace one; None if it stays."""
        if e.outvars and e.outvars[0] in self.stops_gradient:
            return self._stop_padding_gradient(e)
        names = tuple([n for p in e.primitive.axis_params for n in _as_tuple(e.params[p])])
        return [self._rewrite_collective(e, names)] if self.layout.name in names else None

    def _stop_padding_gradient(self, e: Eqn) -> list[Eqn]:
        """Stop derivatives at the operands of a call in padding slots.

        The derivative of a padding slot must be zero. A user rule with collectives does not ensure that, as it may
        receive derivatives of other members. The selects also make the operands vary between slots: a call with
        unvarying operands would not be batched, and neither would its rules.
        """
        operands = [Var(v.aval) for v in e.invars]
        stop = self._stage_call(lambda *xs: [self.layout.stop_padding_gradient(x) for x in xs], e, operands, {},
                                "stop_padding_gradient")
        return [stop, Eqn(e.primitive, operands, e.outvars, e.params, e.source)]

    def _rewrite_collective(self, e: Eqn, names: tuple[AxisName, ...]) -> Eqn:
        """Return a call that does the work of a collective over `names`, one of which is the axis, over slots."""
        layout, rule = self.layout, RULES.get(e.primitive)
        if rule is None:
            raise NotImplementedError(f"padded: `{e.primitive.name}` over the axis {layout.name!r} has no rule for several "
                                      "rows per device. Use as many rows as there are devices, or vmap")
        # 0 marks a name of several sizes: a rule would compute an index with the wrong one.
        other_sizes = {n: self.sizes[n] or 0 for n in names if type(n) is not int and n != layout.name}
        if 0 in other_sizes.values():
            raise NotImplementedError(f"padded: `{e.primitive.name}` over {[*names]}: two maps bind one of these names, with "
                                      "different sizes. Give them different names")
        collective = SlotCollective(layout, e.primitive, names, other_sizes, dict(e.params))

        def run(*xs: Value) -> list[Value]:
            return [cast_like(o, v.aval) for o, v in zip(rule(collective, xs), e.outvars, strict=True)]

        return self._stage_call(run, e, e.outvars, other_sizes, e.primitive.name)

    def _stage_call(self, fun: Callable[..., list[Value]], e: Eqn, outvars: Sequence[Var],
                    other_sizes: Mapping[AxisName, int], name: str) -> Eqn:
        """Stage `fun` for the operands of an equation, and return a call of it with these operands and its source."""
        with extend_axis_env(*[AxisFrame(n, size) for n, size in other_sizes.items()], *self.frames):
            program, outer = stage(fun, [v.aval for v in e.invars])
        assert not outer
        params = {**prims.xla_call_p.defaults, "call_jaxpr": program, "name": name, "inline": True}
        return Eqn(prims.xla_call_p, e.invars, outvars, params, e.source)


def _has_communicating_rules(e: Eqn, name: Hashable) -> bool:
    """Return whether a derivative or transpose of an equation is a user program with collectives over the axis."""
    found = [*[e.params[p] for p in e.primitive.region_signature.extra_programs], *find_rule_programs(e)]  # type: ignore[union-attr]
    return any(name in program.jaxpr.axis_names for program in found if isinstance(program, ClosedJaxpr))


def _find_axis_sizes(closed: ClosedJaxpr) -> dict[AxisName, int | None]:
    """Return the sizes of the axes around a program and in it; None for a name that is bound with several sizes."""
    sizes: dict[AxisName, int | None] = {}
    found = [(f.name, f.size) for f in trace_state.axes]
    todo, seen = [closed], {closed}
    for program in todo:
        for e in program.jaxpr.eqns:
            flow = e.primitive.region_signature
            found += () if flow is None else flow.axes(e.params)
            fresh = [s for s in subprograms(e) if s not in seen]
            seen.update(fresh)
            todo += fresh
    for name, size in found:
        sizes[name] = size if sizes.get(name, size) == size else None
    return sizes


def _as_tuple(names: AxisName | tuple[AxisName, ...]) -> tuple[AxisName, ...]:
    return names if type(names) is tuple else (names,)
