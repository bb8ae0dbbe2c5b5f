"""Pass `axis_index` as an operand.

A program may use the index of its member along the mapped axis, and no other collective over that axis. Then it gets
the index as an operand instead. It can then run in a plain loop over the members.
"""
from __future__ import annotations

import contextlib
from collections.abc import Hashable

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, MissingRuleError, Var, eqn_axis_names, prims, shaped, subprograms, substitute
from lamina_ir.extend import CONST, OperandSpec, RegionView, replace_signature

__all__ = ["communicates_over", "find_rule_programs", "pass_axis_index"]


def communicates_over(closed: ClosedJaxpr, name: Hashable) -> bool:
    """Return whether a program, or one of its derivatives, may use the axis for more than `axis_index`.

    This includes an `axis_index` in a nested program to which an operand cannot be passed.
    """
    # Only two levels of rules are searched: a rule may call its own function, so the nesting has no end.
    todo, seen = [(closed, 0)], {closed}
    for program, depth in todo:
        for e in program.jaxpr.eqns:
            if e.primitive.axis_params and name in eqn_axis_names(e) and not _is_axis_index(e, name):
                return True
            if not e.primitive.subprograms:
                continue
            flow = e.primitive.region_signature
            if name in eqn_axis_names(e) and (flow is None or flow.indivisible or flow.jvp_rule or flow.remat_policy
                                              or flow.axis_binding):
                return True
            rules = find_rule_programs(e) if depth < 2 else []
            if any(name in rule.jaxpr.axis_names for rule in rules):
                return True
            fresh = [(p, depth) for p in subprograms(e) if p not in seen] + [(p, depth + 1) for p in rules if p not in seen]
            seen.update([p for p, _ in fresh])
            todo += fresh
    return False


def _is_axis_index(e: Eqn, name: Hashable) -> bool:
    return e.primitive is prims.axis_index_p and e.params["axis_name"] == name


def find_rule_programs(e: Eqn) -> list[ClosedJaxpr]:
    """Return the programs of an equation's rules, except rules that remain Python functions."""
    found = []
    for value in e.params.values():
        if type(value) is prims.Rule:
            with contextlib.suppress(MissingRuleError):
                found.append(value.program())
    return [program for program in found if isinstance(program, ClosedJaxpr)]


def pass_axis_index(closed: ClosedJaxpr, name: Hashable) -> ClosedJaxpr:
    """Return the program with the axis index as an additional last operand in place of `axis_index`.

    Nested programs that use the index are rewritten in the same way.
    """
    # Keyed by id: a program that is used twice stays one object, so that lowering still emits it once. `closed` keeps
    # the ids valid.
    rewritten: dict[int, ClosedJaxpr] = {}

    def rewrite_program(program: ClosedJaxpr) -> ClosedJaxpr:
        if id(program) not in rewritten:
            index = Var(shaped((), np.dtype("int32")))
            substitutions = {e.outvars[0]: index for e in program.jaxpr.eqns if _is_axis_index(e, name)}
            eqns = [rewrite_equation(e, index) if name in eqn_axis_names(e) else e for e in program.jaxpr.eqns
                    if not _is_axis_index(e, name)]
            extended = replace_signature(program, [*program.jaxpr.invars, index], program.jaxpr.outvars, eqns)
            rewritten[id(program)] = substitute(extended, substitutions)
        return rewritten[id(program)]

    def rewrite_equation(e: Eqn, index: Var) -> Eqn:
        w = RegionView(e.primitive, e.params, len(e.invars))
        slots, programs = w.operands(), []
        index_position: dict[int, int] = {}  # operand group of the signature -> position of its index operand
        for wire in w.regions:
            if name not in wire.program.jaxpr.axis_names:
                programs.append((wire.program, wire.ins, range(1 if wire.is_test else w.n_results)))
                continue
            into = w.region_signature.program_groups[w.region_signature.test if wire.is_test else w.region_signature.body]
            # A constant has the same value in each iteration of a loop, as the index does.
            group = next(g for g in into if w.region_signature.operands[g].kind == CONST)
            # Several programs, as the test and the body of a loop, may take the same group; then they share the
            # operand.
            if group not in index_position:
                index_position[group] = len(slots)
                slots.append(OperandSpec(group, index.aval))
            programs.append((rewrite_program(wire.program), (*wire.ins, index_position[group]),
                             range(1 if wire.is_test else w.n_results)))
        rebuilt = w.rebuild(slots, w.results(), programs)
        invars = [*e.invars, *[index] * len(index_position)]
        return Eqn(e.primitive, [invars[i] for i in rebuilt.operands], [e.outvars[j] for j in rebuilt.results],
                   rebuilt.params, e.source)

    return rewrite_program(closed)
