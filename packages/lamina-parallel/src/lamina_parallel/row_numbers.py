"""Programs that ask for the number of their row and do not communicate over the axis of rows: they get it as an operand."""
from __future__ import annotations

import contextlib
from collections.abc import Hashable

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, MissingRuleError, Var, eqn_axis_names, prims, shaped, subprograms, substitute
from lamina_ir.extend import HELD, Slot, Wired, with_signature

__all__ = ["communicates_over", "numbered", "rules_of"]


def communicates_over(closed: ClosedJaxpr, name: Hashable) -> bool:
    """Whether the program, or a derivative of it, may do more over the axis than ask for the number of its row, in places to
    which that can be brought."""
    # Rules of rules of rules are not asked: a rule may call its own function, so there is no end to them.
    todo, seen = [(closed, 0)], {closed}
    for program, depth in todo:
        for e in program.jaxpr.eqns:
            if e.primitive.axis_params and name in eqn_axis_names(e) and not _is_index(e, name):
                return True
            if not e.primitive.subprograms:
                continue
            flow = e.primitive.flow
            if name in eqn_axis_names(e) and (flow is None or flow.whole or flow.rule or flow.again or flow.binds):
                return True
            rules = rules_of(e) if depth < 2 else []
            if any(name in rule.jaxpr.axis_names for rule in rules):
                return True
            fresh = [(p, depth) for p in subprograms(e) if p not in seen] + [(p, depth + 1) for p in rules if p not in seen]
            seen.update([p for p, _ in fresh])
            todo += fresh
    return False


def _is_index(e: Eqn, name: Hashable) -> bool:
    return e.primitive is prims.axis_index_p and e.params["axis_name"] == name


def rules_of(e: Eqn) -> list[ClosedJaxpr]:
    """The programs of an equation's rules, without those that stay Python functions."""
    found = []
    for value in e.params.values():
        if type(value) is prims.Rule:
            with contextlib.suppress(MissingRuleError):
                found.append(value.program())
    return [program for program in found if isinstance(program, ClosedJaxpr)]


def numbered(closed: ClosedJaxpr, name: Hashable) -> ClosedJaxpr:
    """The program with the number of its row as a last operand, in the place of `axis_index`; programs in it likewise."""
    made: dict[int, ClosedJaxpr] = {}

    def one(program: ClosedJaxpr) -> ClosedJaxpr:
        if id(program) not in made:
            row = Var(shaped((), np.dtype("int32")))
            asked = {e.outvars[0]: row for e in program.jaxpr.eqns if _is_index(e, name)}
            eqns = [through(e, row) if name in eqn_axis_names(e) else e for e in program.jaxpr.eqns
                    if not _is_index(e, name)]
            made[id(program)] = substitute(with_signature(program, [*program.jaxpr.invars, row], program.jaxpr.outvars, eqns),
                                           asked)
        return made[id(program)]

    def through(e: Eqn, row: Var) -> Eqn:
        w = Wired(e.primitive, e.params, len(e.invars))
        slots, programs = w.operands(), []
        given: dict[int, int] = {}  # the group of the flow -> the number of the new operand in it
        for wire in w.wires:
            if name not in wire.program.jaxpr.axis_names:
                programs.append((wire.program, wire.ins, range(1 if wire.decides else w.n_results)))
                continue
            into = w.flow.into[w.flow.test if wire.decides else w.flow.body]
            group = next(g for g in into if w.flow.operands[g].kind == HELD)
            if group not in given:
                given[group] = len(slots)
                slots.append(Slot(group, row.aval))
            programs.append((one(wire.program), (*wire.ins, given[group]), range(1 if wire.decides else w.n_results)))
        written = w.write(slots, w.results(), programs)
        invars = [*e.invars, *[row] * len(given)]
        return Eqn(e.primitive, [invars[i] for i in written.operands], [e.outvars[j] for j in written.results], written.params,
                   e.source)

    return one(closed)
