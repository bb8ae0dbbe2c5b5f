"""Wrap the phases of a program over serial axes in checkpoints.

The derivative then stores only the values that phases read, and recomputes the others. When the program is compiled,
the phases are inlined, together with the calls that contain collectives.
"""
from __future__ import annotations

from collections.abc import Callable

from lamina_ir import Atom, ClosedJaxpr, Eqn, eqn_axis_names, inline_calls, Jaxpr, Literal, Primitive, prims, rewrite
from lamina_ir.extend import dce_equation, stack_depth

from .split_phases import AxisNames, split_phases, make_program, find_free_vars

__all__ = ["checkpoint_phases", "drop_derivative_rules", "inline_axis_calls"]


def checkpoint_phases(closed: ClosedJaxpr, names: AxisNames) -> ClosedJaxpr:
    """Wrap each phase of a per-position program in a checkpoint, for the serial axes `names`.

    Args:
      closed: the program.
      names: the serial axes.
    Returns:
      A program.

    >>> from lamina_ir import parse
    >>> text = ("{ lambda ; a:f32[]{i}. let b:f32[]{i} = sin a c:f32[] = psum[axes=('i',) axis_index_groups=None] b "
    ...         "d:f32[]{i} = cos b e:f32[]{i} = mul d c in (e,) }")
    >>> [e.primitive.name for e in checkpoint_phases(parse(text), frozenset("i")).eqns]
    ['remat', 'psum', 'remat']
    """
    with stack_depth.with_recursion_limit():
        def has_collective(e: Eqn) -> bool:
            return not names.isdisjoint(eqn_axis_names(e))

        # Phases are split at equations of this program, so collectives inside of calls must become equations of it.
        if any(map(has_collective, closed.jaxpr.eqns)):
            closed = inline_calls(closed, has_collective)
        cut = split_phases(closed, names, False)
        eqns = list(cut.boundary_eqns[0])
        stored = cut.stored_values(closed.jaxpr.outvars)
        for k, (phase, outs, after) in enumerate(zip(cut.phase_eqns, stored, cut.boundary_eqns[1:])):
            # No barrier is needed (`prevent_cse`): backward phases run in a loop of their own, and XLA does not merge
            # computations of two loops.
            if phase:
                ins = find_free_vars(phase)
                eqns.append(Eqn(prims.remat_p, ins, outs, {
                    "call_jaxpr": make_program(phase, ins, outs), "differentiated": False, "name": f"phase {k}",
                    "policy": None, "prevent_cse": False}))
            eqns += after
        return ClosedJaxpr(Jaxpr(closed.jaxpr.constvars, closed.jaxpr.invars, eqns, closed.jaxpr.outvars), closed.consts)


_CALLS_WITH_RULES = frozenset([prims.custom_jvp_call_p, prims.custom_vjp_call_p])
_CALLS = frozenset([prims.xla_call_p, prims.remat_p, *_CALLS_WITH_RULES])


def inline_axis_calls(closed: ClosedJaxpr, names: AxisNames) -> ClosedJaxpr:
    """Inline the calls that contain collectives over the axes, including calls with custom derivatives or rules.

    A checkpoint is replaced by its phases, each of which is a checkpoint.
    """
    def split(e: Eqn) -> ClosedJaxpr:
        # The user asked for a checkpoint of the whole body. It cannot contain a collective that runs between loops,
        # so each phase gets one.
        body: ClosedJaxpr = e.params["call_jaxpr"]
        return checkpoint_phases(body, names) if e.primitive is prims.remat_p else body

    return _drop_copies(_inline(closed, names, _CALLS, split))


def drop_derivative_rules(closed: ClosedJaxpr, names: AxisNames) -> ClosedJaxpr:
    """Inline the calls with derivative rules that contain collectives over the axes, for a program that is only executed.

    A call with rules is batched with all results batched. Without rules the result of a reduction over the axis is
    unbatched, so that it is not stored once per position.
    """
    return _inline(closed, names, _CALLS_WITH_RULES, lambda e: e.params["call_jaxpr"])


def _inline(closed: ClosedJaxpr, names: AxisNames, calls: frozenset[Primitive],
            find_body: Callable[[Eqn], ClosedJaxpr]) -> ClosedJaxpr:
    """Inline the bodies of some kinds of calls if they contain collectives over the axes."""
    def is_inside(e: Eqn) -> bool:
        return e.primitive in _CALLS and not names.isdisjoint(eqn_axis_names(e))

    inlined: set[ClosedJaxpr] = set()

    def as_call(e: Eqn) -> list[Eqn] | None:
        if e.primitive not in calls or not is_inside(e):
            return None
        body = find_body(e)
        inlined.add(body)
        params = {**prims.xla_call_p.defaults, "call_jaxpr": body, "name": e.params["name"]}
        return [e.replace(primitive=prims.xla_call_p, params=params)]

    if not any(map(is_inside, closed.jaxpr.eqns)):
        return closed
    return inline_calls(rewrite(closed, as_call, nested=is_inside), lambda e: e.params["call_jaxpr"] in inlined)


def _drop_copies(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Drop results of checkpoints that are an operand or a duplicate of another result.

    Each such result would be stored a second time.
    """
    same: dict[Atom, Atom] = {}  # result -> the value it equals
    eqns: list[Eqn] = []
    for e in closed.jaxpr.eqns:
        if same:
            e = e.replace(invars=[a if type(a) is Literal else same.get(a, a) for a in e.invars])
        if e.primitive is prims.remat_p:
            inner = e.params["call_jaxpr"].jaxpr
            known = dict(zip(inner.invars, e.invars))
            for a, v in zip(inner.outvars, e.outvars):
                # The first result of a variable stands for it; a later result of the same variable is a duplicate of
                # that.
                found = a if type(a) is Literal else known.setdefault(a, v)
                # Types may differ in varying axes; then the copy stays.
                if found is not v and found.aval == v.aval:
                    same[v] = found
            if not same.keys().isdisjoint(e.outvars):
                e = dce_equation(e, [v not in same for v in e.outvars])
        eqns += [e] if e.outvars else []
    if not same:
        return closed
    jaxpr = closed.jaxpr
    outs = [a if type(a) is Literal else same.get(a, a) for a in jaxpr.outvars]
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, outs), closed.consts)
