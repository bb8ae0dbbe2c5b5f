"""Estimate the floating point operations and memory traffic of an equation or a program.

Costs follow from types alone, by the rules in `cost.rules`: nothing is executed, and fusion and hardware caches are
ignored. A loop counts once per iteration, a map once per member, and of several branches only the most expensive
counts. Unknown costs are not guessed but listed in `Cost.uncounted`.
"""
from __future__ import annotations

from collections.abc import Callable
from math import prod

from . import rules  # noqa: F401  (fills the table)
from .._util.short_repr import short_repr
from .table import Cost, cost_rules, transfer_cost
from .._types.dtypes import is_inexact
from .._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal

from .._core.region_view import RegionView
from .._util.former_names import former_parameters

__all__ = ["cost_by_primitive", "eqn_cost", "program_cost"]

IterationCount = int | Callable[[Eqn], int | None] | None


# --- equations and programs ---------------------------------------------------------------------------------------
def _cost_by_rule(e: Eqn, iterations: IterationCount) -> Cost:
    """Return the cost of an equation according to its rule."""
    op, ins, outs = e.primitive, [a.aval for a in e.invars], [v.aval for v in e.outvars]
    read = [a.aval for a in dict.fromkeys([a for a in e.invars if not isinstance(a, Literal)])]
    rule = cost_rules.get(op)
    if isinstance(rule, str):
        return _total(_cost_of_program(e.params[rule], iterations))
    if isinstance(rule, tuple):
        param, times = rule
        of_one = _total(_cost_of_program(e.params[param], iterations)).work()
        return transfer_cost(read, outs) + of_one * times(ins, outs, **e.params)
    if rule is not None:
        found = rule(ins, outs, **e.params)
        if isinstance(found, Cost):
            return found
        return transfer_cost(read, outs) + (Cost(*found) if isinstance(found, tuple) else Cost(found))
    reason = cost_rules.missing_rules.get(op)
    if reason is None and op.elementwise:
        return transfer_cost(read, outs) + Cost(sum([a.size for a in outs if is_inexact(a.dtype)]))
    return transfer_cost(read, outs) + Cost(uncounted=frozenset([(op.name, reason or "it has no rule in cost_rules")]))


def _count_iterations(e: Eqn, iterations: IterationCount) -> tuple[int, frozenset[tuple[str, str]]]:
    """Return the iteration count of a loop, and the entry for `Cost.uncounted` if it is unknown."""
    signature = e.primitive.region_signature
    if signature.length:  # type: ignore[union-attr]
        return e.params[signature.length], frozenset()  # type: ignore[union-attr]
    found = iterations(e) if callable(iterations) else iterations
    if found is None and signature.max_iters:  # type: ignore[union-attr]
        found = e.params[signature.max_iters]  # type: ignore[union-attr]
    if found is None:
        return 1, frozenset([(e.primitive.name, "its number of iterations is unknown, so one is counted; pass it to the cost "
                              "function")])
    return found, frozenset()


def _total(costs: dict[str, Cost]) -> Cost:
    return sum(costs.values(), Cost())


def _weight(costs: dict[str, Cost]) -> tuple[int, int]:
    total = _total(costs)
    return total.flops + total.transcendentals, total.bytes


def _accumulate(costs: dict[str, Cost], more: dict[str, Cost], times: int = 1) -> None:
    for op, cost in more.items():
        costs[op] = costs.get(op, Cost()) + cost * times


def _cost_of_eqn(e: Eqn, iterations: IterationCount) -> dict[str, Cost]:
    p = e.primitive
    if p.region_signature is None or not p.region_signature.operands:
        return {p.name: _cost_by_rule(e, iterations)}
    w = RegionView.of(e)
    found: dict[str, Cost] = {}
    bodies = [_cost_of_program(b.program, iterations) for b in w.bodies]
    if w.selector is not None:
        _accumulate(found, max(bodies, key=_weight))
        unknown = frozenset([h for body in bodies for cost in body.values() for h in cost.uncounted])
        _accumulate(found, {p.name: Cost(uncounted=unknown)})
        return found
    if w.region_signature.loops:
        times, unknown = _count_iterations(e, iterations)
    else:
        times, unknown = prod([size for _, size in w.region_signature.axes(e.params)]), frozenset()
    _accumulate(found, bodies[0], times)
    if w.region_signature.test:  # the test also runs once more, when it ends the loop
        _accumulate(found, _cost_of_program(w.regions[0].program, iterations), times + 1)
    _accumulate(found, {p.name: Cost(uncounted=unknown)})
    return found


def _cost_of_program(program: ClosedJaxpr, iterations: IterationCount) -> dict[str, Cost]:
    def count() -> dict[str, Cost]:
        found: dict[str, Cost] = {}
        for e in program.jaxpr.eqns:
            _accumulate(found, _cost_of_eqn(e, iterations))
        return found

    return program.memo(("cost", cost_rules.version, iterations), count)


def _check_iterations(call: str, iterations: object) -> None:
    is_count = isinstance(iterations, int) and not isinstance(iterations, bool) and iterations >= 0
    if not (iterations is None or callable(iterations) or is_count):
        raise TypeError(f"{call}: iterations must be a number of at least 0, or a function of an equation that gives one; got "
                        f"{short_repr(iterations)}")


@former_parameters(turns="iterations")
def eqn_cost(eqn: Eqn, *, iterations: IterationCount = None) -> Cost:
    """Return the cost of one equation, including its nested programs.

    Args:
      eqn: the equation.
      iterations: the number of iterations of loops whose length the program does not fix: a number, or a function of
        the loop's equation that returns one. Default: the loop's bound; without a bound one iteration, listed as
        uncounted.

    >>> from lamina_ir import parse
    >>> eqn_cost(parse("{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }").eqns[0])
    Cost(flops=3, transcendentals=0, bytes_read=12, bytes_written=12, uncounted=frozenset())
    """
    if not isinstance(eqn, Eqn):
        raise TypeError(f"eqn_cost: expected an Eqn; got {short_repr(eqn)}")
    _check_iterations("eqn_cost", iterations)
    return _total(_cost_of_eqn(eqn, iterations))


@former_parameters(turns="iterations")
def program_cost(program: Jaxpr | ClosedJaxpr, *, iterations: IterationCount = None) -> Cost:
    """Return the cost of a whole program: the sum over its equations, times the iterations of the loops they are in.

    Args:
      program: the program.
      iterations: the number of iterations of loops whose length the program does not fix, as for `eqn_cost`.

    >>> from lamina_ir import build
    >>> loop = build(lambda b, x: b.scan(lambda b, c: b.op("sin", c), [x], length=10)[0], "f32[100]")
    >>> program_cost(loop).transcendentals
    1000
    """
    return _total(cost_by_primitive(program, iterations=iterations))


def cost_by_primitive(program: Jaxpr | ClosedJaxpr, *, iterations: IterationCount = None) -> dict[str, Cost]:
    """Return the cost of a whole program by primitive.

    Args:
      program: the program.
      iterations: the number of iterations of loops whose length the program does not fix, as for `eqn_cost`.
    Returns:
      Name of the primitive -> cost of all its equations. A primitive that holds programs appears with its own part
      alone, such as uncounted costs; the equations inside count under their own primitives.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[8]. let b:f32[8] = sin a c:f32[8] = sin b d:f32[8] = mul c b in (d,) }")
    >>> {op: (cost.flops, cost.transcendentals) for op, cost in cost_by_primitive(program).items()}
    {'sin': (0, 16), 'mul': (8, 0)}
    """
    if isinstance(program, Jaxpr):
        program = ClosedJaxpr(program, [None] * len(program.constvars))
    if not isinstance(program, ClosedJaxpr):
        raise TypeError(f"program_cost: expected a Jaxpr or a ClosedJaxpr; got {short_repr(program)}")
    _check_iterations("program_cost", iterations)
    return dict(_cost_of_program(program, iterations))
