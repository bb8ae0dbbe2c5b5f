"""Propagate Taylor series through programs.

Rules are looked up in `jet_rules`. A primitive without one is differentiated once by its JVP rule. The derivative of
the results is the JVP at x and x'. So their series of order n follows from the series of order n - 1 of the JVP. This
ends at order 0, and gives every differentiable primitive a rule, also functions with custom derivatives.

Equations with nested programs (calls, branches, loops, maps) become equations whose programs take and return all
coefficients.
"""
from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from lamina_autodiff.extend import jvp_program, outside_map_context
from lamina_ir import Atom, ClosedJaxpr, Literal, MissingRuleError, Primitive, Var, eqn_has_effects, prims
from lamina_ir.extend import OperandSpec, RegionView, RuleTable, propagate_forward, stack_depth
from lamina_ir.typing import Params, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, stage, trace_state, typeof

from ._series import Series, constant, differentiate, integrate, is_constant

__all__ = ["jet_of_jvp", "jet_program", "jet_rules", "propagate"]

# Primitive -> rule(order, operands, /, **params): the operands are series; returns the series of the result, a list of
# them if the primitive has several results.
jet_rules = RuleTable("jet", "lamina_jet/_rules", leading_params=("order", "operands"))

Flags = tuple[bool, ...]


RebuiltParams: TypeAlias = Any  # the result of `RegionView.rebuild`


class JetProgram(NamedTuple):
    """The program of a program on series.

    Attributes:
      program: (arguments, coefficients 1 to n of the active ones) -> (results, coefficients of those that have some).
      active_out: for each result, whether it has coefficients.
    """

    program: ClosedJaxpr
    active_out: Flags


def propagate(closed: ClosedJaxpr, order: int, args: Sequence[Series]) -> list[Series]:
    """Run a program on series of its arguments; return those of its results."""
    jaxpr = closed.jaxpr
    env: dict[Var, Series] = {v: constant(c, order) for v, c in zip(jaxpr.constvars, closed.consts)}
    env.update(zip(jaxpr.invars, args))

    def read(v: Atom) -> Series:
        return constant(v.val, order) if isinstance(v, Literal) else env[v]

    outer = trace_state.source
    try:
        for eqn in jaxpr.eqns:
            trace_state.source = outer if eqn.source is None else eqn.source
            out = _propagate_equation(eqn.primitive, order, [read(v) for v in eqn.invars], eqn.params)
            env.update(zip(eqn.outvars, out if eqn.primitive.multiple else [out]))
    finally:
        trace_state.source = outer
    return [read(v) for v in jaxpr.outvars]


def _propagate_equation(prim: Primitive, order: int, operands: list[Series], params: Params) -> list[Series] | Series:
    if all(map(is_constant, operands)):
        out = bind(prim, *[x[0] for x in operands], **params)
        return [constant(o, order) for o in out] if prim.multiple else constant(out, order)
    rule = jet_rules.get(prim)
    if rule is not None:
        return rule(order, operands, **params)
    reason = jet_rules.missing_rules.get(prim)
    if reason is not None:
        raise MissingRuleError(f"jet of `{prim.name}` has no rule: {reason}")
    # Functions with custom derivatives, and linear solves, have JVP rules of their own.
    if prim.region_signature is not None and (prim.family not in ("custom", "solves") or prim is prims.remat_p):
        return _propagate_regions(prim, order, operands, params)
    return jet_of_jvp(prim, order, operands, params)


# --- by the JVP rule ------------------------------------------------------------------------------------------------
def jet_of_jvp(prim: Primitive, order: int, operands: list[Series], params: Params) -> list[Series] | Series:
    """Return the series of the results of a primitive from the series of its JVP, which is one order lower."""
    active = tuple([not is_constant(x) for x in operands])
    closed = _one_equation_program(prim, [x[0] for x in operands], params)
    effects = any(map(eqn_has_effects, closed.jaxpr.eqns))
    if effects and closed.jaxpr.outvars:
        raise MissingRuleError(f"jet of `{prim.name}`: a primitive with effects and results has no Taylor series; pass "
                               "constants to it (lax.stop_gradient)")
    if effects:
        bind(prim, *[x[0] for x in operands], **params)
        return []
    push = jvp_program(closed, active)
    lower = [x[:-1] for x in operands]
    # The tangents are the derivatives of the operands with respect to t.
    tangents = [_instantiate(differentiate(x), x[0]) for x, on in zip(operands, active) if on]
    found = propagate(push.program, order - 1, [*lower, *tangents])
    n = len(push.active_out)
    pushed = iter(found[n:])
    out = [integrate(o[0], next(pushed)) if on else constant(o[0], order) for o, on in zip(found, push.active_out)]
    return out if prim.multiple else out[0]


def _instantiate(x: Series, like: Value) -> Series:
    """Make the first coefficient an array."""
    return x if x[0] is not None else [lax.full_like(like, 0), *x[1:]]


def _one_equation_program(prim: Primitive, args: Sequence[Value], params: Params) -> ClosedJaxpr:
    def run(*xs: Value) -> list[Value]:
        out = bind(prim, *xs, **params)
        return list(out) if prim.multiple else [out]

    closed, outer = stage(run, [typeof(x) for x in args])
    assert not outer
    return closed


# --- nested programs ------------------------------------------------------------------------------------------------
def jet_program(closed: ClosedJaxpr, order: int, active: Flags, required: Flags = ()) -> JetProgram:
    """Return the program of a program on series, cached on the program.

    Args:
      closed: the program.
      order: the number of coefficients after the value.
      active: for each argument, whether it has coefficients.
      required: for each result, whether it must have coefficients, even if they are zero; default: none.
    """
    def make() -> JetProgram:
        n, avals = len(closed.in_avals), closed.in_avals
        flags: list[bool] = []

        def run(*args: Value) -> list[Value]:
            rest = iter(args[n:])
            series = [[x, *[next(rest) if on else None for _ in range(order)]] for x, on in zip(args[:n], active)]
            found = propagate(closed, order, series)
            flags[:] = [not is_constant(x) or i < len(required) and required[i] for i, x in enumerate(found)]
            return [*[x[0] for x in found], *_instantiate_all([x for x, on in zip(found, flags) if on])]

        terms = [a.strip_weak_type() for a, on in zip(avals, active) if on for _ in range(order)]
        program, outer = stage(run, [*avals, *terms])
        assert not outer
        return JetProgram(program, tuple(flags))

    return closed.memo_with_settings(("jet", order, active, required), make)


def _instantiate_all(series: Sequence[Series]) -> list[Value]:
    """Return the coefficients after the values, with arrays of zeros for None."""
    return [lax.full_like(x[0], 0) if c is None else c for x in series for c in x[1:]]


def _propagate_regions(prim: Primitive, order: int, operands: list[Series], params: Params) -> list[Series]:
    """Bind one equation whose nested programs compute values and coefficients."""
    view = RegionView(prim, params, len(operands))
    rebuilt, moved, active_out = _rebuild(view, order, tuple([not is_constant(x) for x in operands]))
    given = [x[0] for x in operands]
    given += _instantiate_all([operands[i] for i in moved])
    outs = rebuilt.reorder_results(bind(prim, *[given[i] for i in rebuilt.operands], **rebuilt.params))
    rest = iter(outs[len(active_out):])
    return [[o, *[next(rest) if on else None for _ in range(order)]] for o, on in zip(outs, active_out)]


def _rebuild(view: RegionView, order: int, on: Flags) -> tuple[RebuiltParams, list[int], Flags]:
    """Return the params of the equation on series, which operands have coefficients, and which results."""
    n, m = len(on), view.n_results
    ops, required = on, ()
    if view.n_carry or len(view.bodies) > 1:
        # All branches return the same results, and a loop body returns the carries that it takes.
        ops, outs = propagate_forward(view, on, lambda region, marks: _find_active(region.program, order, marks))
        required = outs if len(view.bodies) > 1 else outs[:view.n_carry] + (False,) * (m - view.n_carry)
    read = {i for b in view.bodies for i in b.ins}
    moved = [i for i, a in enumerate(ops) if a and i in read]
    binds_axes = view.region_signature.axis_binding
    context = (outside_map_context(view.region_signature.axes(view.params), view.bodies[0].program) if binds_axes
               else contextlib.nullcontext())
    with context, stack_depth.with_recursion_limit():
        jets = [jet_program(b.program, order, tuple([ops[i] for i in b.ins]), required) for b in view.bodies]
    active_out = jets[0].active_out
    pushed = [j for j, o in enumerate(active_out) if o]
    at = {i: n + k * order for k, i in enumerate(moved)}
    programs: list[tuple[ClosedJaxpr, Sequence[int], Sequence[int]]] = [
        (b.program, b.ins, [0]) for b in view.regions if b.is_test]  # a loop test reads values only
    programs += [(jet.program, [*b.ins, *[at[i] + k for i in b.ins if i in at for k in range(order)]],
                  range(m + len(pushed) * order)) for jet, b in zip(jets, view.bodies)]
    specs = [OperandSpec(view.groups[i], view.inner_aval(i).strip_weak_type(), i) for i in moved for _ in range(order)]
    results = [*view.results(), *[OperandSpec(int(j >= view.n_carry), None, j) for j in pushed for _ in range(order)]]
    return view.rebuild([*view.operands(same=False), *specs], results, programs), moved, active_out


def _find_active(closed: ClosedJaxpr, order: int, active: Sequence[bool]) -> Flags:
    """Return which results of a program have coefficients."""
    return jet_program(closed, order, tuple(active)).active_out
