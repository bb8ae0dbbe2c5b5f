"""Replace primitives whose lowering rule is a program by calls of that program.

The passes and checks of programs before lowering then see what these primitives compute: keys, host callbacks, collectives,
maps. Otherwise the rule emits the program in place.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from lamina_ir import ClosedJaxpr, Eqn, Primitive, ShapedArray, prims
from lamina_ir.extend import stack_depth
from lamina_ir.extend.unchecked import lower_keys, rewrite, thread_iteration_counters
from lamina_ir.typing import AxisName, Params, ParamValue

from .rule_context import Context
from .rule_tables import has_platform_rule, lowering_rules
from .._typing import IrValue

__all__ = ["ProgramRule", "expand_primitives"]

_primitive_of = attrgetter("primitive")
Axes = tuple[tuple[AxisName, int], ...]
MakeProgram = Callable[[Sequence[ShapedArray], Sequence[ShapedArray], Params, Axes], ClosedJaxpr]


class ProgramRule:
    """A lowering rule that is a program of other primitives.

    Args:
      make_program: `make_program(avals, out_avals, params, axes)` returns the program for operands and results of these
        types; `axes` holds (name, size) of the mapped axes around the equation, outermost first.

    >>> from lamina_ir import parse
    >>> from lamina_lowering import lower
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = tanh a in (b,) }")
    >>> sine = parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }")
    >>> with lowering_rules.override(prims.tanh_p, ProgramRule(lambda avals, out_avals, params, axes: sine)):
    ...     "stablehlo.sine" in lower(program).as_text()
    True
    """

    is_used = False  # whether this process has made such a rule; if not, there is nothing to expand

    def __init__(self, make_program: MakeProgram) -> None:
        self.make_program = make_program
        ProgramRule.is_used = True

    def __call__(self, ctx: Context, /, *operands: IrValue, **params: ParamValue) -> IrValue | list[IrValue]:
        env = ctx.axis_env
        program = self.make_program(ctx.avals_in, ctx.avals_out, params, tuple(zip(env.names, env.sizes)))
        values = ctx.inline(thread_iteration_counters(lower_keys(program)), operands)
        return values if ctx.eqn.primitive.multiple else values[0]


def expand_primitives(program: ClosedJaxpr, axes: Axes = ()) -> ClosedJaxpr:
    """Replace each equation whose primitive has a `ProgramRule` by a call of its program.

    Primitives that have a rule of their own on some platform are not replaced. The result is memoized on the program.

    Args:
      program: any program.
      axes: (name, size) of the mapped axes around it, outermost first.
    Returns:
      A program with the same arguments and results; `program` itself if it has no such equation.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = tanh a in (b,) }")
    >>> expand_primitives(program) is program
    True
    """
    if not ProgramRule.is_used:
        return program

    def make() -> tuple[ClosedJaxpr, ...]:
        with stack_depth.with_recursion_limit():
            found = _expand(program, axes, {})
        return () if found is program else (found,)  # the memo must not refer to the program itself

    changed = program.memo_with_settings(("expanded", axes), make)
    return changed[0] if changed else program


def _expand(program: ClosedJaxpr, axes: Axes, seen: dict[tuple[int, Axes], tuple[ClosedJaxpr, ClosedJaxpr]]) -> ClosedJaxpr:
    if not any(prim.subprograms or _find_rule(prim) for prim in set(map(_primitive_of, program.jaxpr.eqns))):
        return program
    key = id(program), axes  # the entry also holds the program, so that its id is not reused
    if key not in seen:
        def replace(e: Eqn) -> list[Eqn] | None:
            new = _expand_equation(e, axes, seen)
            return None if new is e else [new]
        seen[key] = program, rewrite(program, replace, nested=False)
    return seen[key][1]


def _find_rule(prim: Primitive) -> ProgramRule | None:
    """Return the program rule of a primitive that is replaced; None for other primitives."""
    rule = dict.get(lowering_rules, prim)
    return rule if isinstance(rule, ProgramRule) and not prim.elementwise and not has_platform_rule(prim) else None


def _expand_equation(e: Eqn, axes: Axes, seen: dict[tuple[int, Axes], tuple[ClosedJaxpr, ClosedJaxpr]]) -> Eqn:
    prim = e.primitive
    if prim.subprograms:
        assert prim.region_signature is not None
        inside, params = axes + prim.region_signature.axes(e.params), dict(e.params)
        for name in prim.subprograms:  # rules of custom derivatives are not compiled, so they stay
            nested = params[name]
            if isinstance(nested, ClosedJaxpr):
                params[name] = _expand(nested, inside, seen)
            elif nested is not None:
                new = tuple([_expand(region, inside, seen) for region in nested])
                params[name] = nested if all(a is b for a, b in zip(new, nested)) else new
        return e if all(params[name] is e.params[name] for name in prim.subprograms) else e.replace(params=params)
    rule = _find_rule(prim)
    if rule is None:
        return e
    found = _expand(rule.make_program([v.aval for v in e.invars], [v.aval for v in e.outvars], e.params, axes), axes, seen)
    return Eqn(prims.xla_call_p, e.invars, e.outvars, {"call_jaxpr": found, "name": prim.name, "donated_invars": (),
                                                      "inline": False, "device": None, "backend": None}, e.source)
