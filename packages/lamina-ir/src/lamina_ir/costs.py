"""How many floating point operations an equation or a program takes, and how many bytes it reads and writes.

Counted from types alone, as the ops say in `cost_rows`: nothing is run, fused or kept in a cache. Loops count as often as they
turn, maps once for each member, of branches the most costly. What nobody can count is not guessed: it stands in `holes`.
"""
from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from . import cost_rows  # noqa: F401  (fills the table)
from ._excerpt import excerpt
from .cost_table import Cost, cost_rules, moved
from .dtypes import is_inexact
from .program import ClosedJaxpr, Eqn, Jaxpr, Literal

from .wiring import Wired

__all__ = ["cost_by_op", "eqn_cost", "program_cost"]

Turns = int | Callable[[Eqn], int | None] | None


# --- equations and programs ---------------------------------------------------------------------------------------
def _leaf(e: Eqn, turns: Turns) -> Cost:
    """The cost of an equation as its row says it."""
    op, ins, outs = e.primitive, [a.aval for a in e.invars], [v.aval for v in e.outvars]
    read = [a.aval for a in dict.fromkeys([a for a in e.invars if not isinstance(a, Literal)])]
    rule = cost_rules.get(op)
    if isinstance(rule, str):
        return _total(_of_program(e.params[rule], turns))
    if isinstance(rule, tuple):
        param, times = rule
        return moved(read, outs) + _total(_of_program(e.params[param], turns)).work() * times(ins, outs, **e.params)
    if rule is not None:
        found = rule(ins, outs, **e.params)
        if isinstance(found, Cost):
            return found
        return moved(read, outs) + (Cost(*found) if isinstance(found, tuple) else Cost(found))
    reason = cost_rules.holes.get(op)
    if reason is None and op.elementwise:
        return moved(read, outs) + Cost(sum([a.size for a in outs if is_inexact(a.dtype)]))
    return moved(read, outs) + Cost(holes=frozenset([(op.name, reason or "it has no row in cost_rules")]))
def _turns_of(e: Eqn, turns: Turns) -> tuple[int, frozenset[tuple[str, str]]]:
    """How often a loop turns, and the hole if nobody knows."""
    flow = e.primitive.flow
    if flow.length:  # type: ignore[union-attr]
        return e.params[flow.length], frozenset()  # type: ignore[union-attr]
    found = turns(e) if callable(turns) else turns
    if found is None and flow.bound:  # type: ignore[union-attr]
        found = e.params[flow.bound]  # type: ignore[union-attr]
    if found is None:
        return 1, frozenset([(e.primitive.name, "nobody knows how often it turns, so one turn is counted; say it: turns=")])
    return found, frozenset()


def _total(costs: dict[str, Cost]) -> Cost:
    return sum(costs.values(), Cost())


def _weight(costs: dict[str, Cost]) -> tuple[int, int]:
    total = _total(costs)
    return total.flops + total.transcendentals, total.bytes


def _added(costs: dict[str, Cost], more: dict[str, Cost], times: int = 1) -> None:
    for op, cost in more.items():
        costs[op] = costs.get(op, Cost()) + cost * times


def _by_op(e: Eqn, turns: Turns) -> dict[str, Cost]:
    p = e.primitive
    if p.flow is None or not p.flow.operands:
        return {p.name: _leaf(e, turns)}
    w = Wired.of(e)
    found: dict[str, Cost] = {}
    bodies = [_of_program(b.program, turns) for b in w.bodies]
    if w.chooser is not None:
        _added(found, max(bodies, key=_weight))
        unknown = frozenset([h for body in bodies for cost in body.values() for h in cost.holes])
        _added(found, {p.name: Cost(holes=unknown)})
        return found
    times, hole = _turns_of(e, turns) if w.flow.loops else (prod([size for _, size in w.flow.axes(e.params)]), frozenset())
    _added(found, bodies[0], times)
    if w.flow.test:
        _added(found, _of_program(w.wires[0].program, turns), times + 1)
    _added(found, {p.name: Cost(holes=hole)})
    return found


def _of_program(program: ClosedJaxpr, turns: Turns) -> dict[str, Cost]:
    def count() -> dict[str, Cost]:
        found: dict[str, Cost] = {}
        for e in program.jaxpr.eqns:
            _added(found, _by_op(e, turns))
        return found

    return program.memo(("cost", cost_rules.version, turns), count)


def _asked(call: str, turns: Any) -> None:
    if not (turns is None or callable(turns) or isinstance(turns, int) and not isinstance(turns, bool) and turns >= 0):
        raise TypeError(f"{call}: turns must be a number of at least 0, or a function of an equation that gives one; got "
                        f"{excerpt(turns)}")


def eqn_cost(eqn: Eqn, *, turns: Turns = None) -> Cost:
    """What one equation takes, with the programs in it.

    Args:
      eqn: the equation.
      turns: how often loops turn of which the program does not say it: a number, or a function of the loop's equation that
        gives one. Left out, they turn as often as they may at most, or, if they have no bound, once, and are a hole.

    >>> from lamina_ir import parse
    >>> eqn_cost(parse("{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }").eqns[0])
    Cost(flops=3, transcendentals=0, bytes_read=12, bytes_written=12, holes=frozenset())
    """
    if not isinstance(eqn, Eqn):
        raise TypeError(f"eqn_cost: expected an Eqn; got {excerpt(eqn)}")
    _asked("eqn_cost", turns)
    return _total(_by_op(eqn, turns))


def program_cost(program: Jaxpr | ClosedJaxpr, *, turns: Turns = None) -> Cost:
    """What a whole program takes: the sum over its equations, in loops as often as they turn.

    Args:
      program: the program.
      turns: how often loops turn of which the program does not say it, as for `eqn_cost`.

    >>> from lamina_ir import build
    >>> loop = build(lambda b, x: b.scan(lambda b, c: b.op("sin", c), [x], length=10)[0], "f32[100]")
    >>> program_cost(loop).transcendentals
    1000
    """
    return _total(cost_by_op(program, turns=turns))


def cost_by_op(program: Jaxpr | ClosedJaxpr, *, turns: Turns = None) -> dict[str, Cost]:
    """What a whole program takes, by the name of the op.

    Args:
      program: the program.
      turns: how often loops turn of which the program does not say it, as for `eqn_cost`.
    Returns:
      Op -> cost of all its equations. Ops that hold programs stand there for what is theirs alone, such as holes.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[8]. let b:f32[8] = sin a c:f32[8] = sin b d:f32[8] = mul c b in (d,) }")
    >>> {op: (cost.flops, cost.transcendentals) for op, cost in cost_by_op(program).items()}
    {'sin': (0, 16), 'mul': (8, 0)}
    """
    if isinstance(program, Jaxpr):
        program = ClosedJaxpr(program, [None] * len(program.constvars))
    if not isinstance(program, ClosedJaxpr):
        raise TypeError(f"program_cost: expected a Jaxpr or a ClosedJaxpr; got {excerpt(program)}")
    _asked("program_cost", turns)
    return dict(_of_program(program, turns))
