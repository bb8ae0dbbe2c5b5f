"""Programs made of parts of a program: one equation, or all intermediate values as results."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from lamina_ir import ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var, evaluate, evaluate_spmd, prims, rewrite
from lamina_ir.prims import Split
from lamina_ir.typing import AxisName

__all__ = ["drop_prints", "evaluate_equation", "expose_map", "expose_values", "is_map", "map_axes", "operand_vars",
           "single_equation"]

_MAPS = (prims.xla_pmap_p, prims.shard_map_p)


def drop_prints(program: ClosedJaxpr) -> ClosedJaxpr:
    """Remove effects without results: they happened in the call that is examined."""
    return program.memo("replay: no prints", lambda: rewrite(
        program, lambda e: [] if e.primitive.effectful and not e.outvars else None))


def operand_vars(e: Eqn) -> list[Var]:
    """Return the distinct variables that an equation reads, in order."""
    return list(dict.fromkeys([a for a in e.invars if type(a) is not Literal]))


def single_equation(e: Eqn) -> ClosedJaxpr:
    """Return the program of one equation, with its variables (`operand_vars`) as arguments and all its results."""
    new = {v: Var(v.aval) for v in operand_vars(e)}
    outs = [Var(v.aval) for v in e.outvars]
    ins = [a if type(a) is Literal else new[a] for a in e.invars]
    return ClosedJaxpr(Jaxpr((), list(new.values()), [Eqn(e.primitive, ins, outs, e.params, e.source)], outs))


def evaluate_equation(e: Eqn, values: Mapping[Var, Sequence[np.ndarray]],
                      axes: Sequence[tuple[AxisName, int]] = ()) -> list[list[np.ndarray]]:
    """Evaluate an equation with NumPy.

    Args:
      e: the equation.
      values: for each variable that it reads, one array per member; one array outside of maps.
      axes: the mapped axes, outermost first; (): none.
    Returns:
      For each result a list with one array per member.
    """
    program, ins = single_equation(e), [values[v] for v in operand_vars(e)]
    with np.errstate(all="ignore"):
        if axes:
            return evaluate_spmd(program, axes, ins)
        return [[x] for x in evaluate(program, *[x[0] for x in ins])]


def expose_values(program: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Var]]:
    """Return the program with the results of all its equations as further results, and their variables.

    The results of the program itself come first.
    """
    def make() -> tuple[ClosedJaxpr, list[Var]]:
        jaxpr = program.jaxpr
        eqns, exposed = [], []
        for e in jaxpr.eqns:
            outs = [Var(v.aval) if isinstance(v, DropVar) else v for v in e.outvars]
            exposed += outs
            eqns.append(Eqn(e.primitive, e.invars, outs, e.params, e.source))
        return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, [*jaxpr.outvars, *exposed]), program.consts), exposed

    return program.memo("replay: exposed", make)


def map_axes(e: Eqn) -> list[tuple[AxisName, int]]:
    """Return (name, size) of the axes that a map binds, outermost first."""
    params = e.params
    if e.primitive is prims.xla_pmap_p:
        return [(params["axis_name"], params["axis_size"])]
    names, sizes, _ = params["mesh"]
    return [(n, s) for n, s in zip(names, sizes) if n not in params["auto"]]


def expose_map(e: Eqn) -> tuple[ClosedJaxpr, list[Var], list[Eqn]]:
    """Return a program that runs a map and returns the values inside it, by member along a new leading axis.

    Returns:
      (program of the operands of the map, variables of its body in the order of the results, equations of its body).
      The results are those of the map itself, then the arguments and all values of the body.
    """
    body = e.params["call_jaxpr"]
    inner, exposed = expose_values(body)
    seen = [*inner.jaxpr.invars, *exposed]
    outs, eqns = inner.jaxpr.outvars[:len(body.jaxpr.outvars)], list(inner.eqns)
    params = dict(e.params)
    if e.primitive is prims.xla_pmap_p:
        leaves = list(seen)
        params["out_axes"] = (*params["out_axes"], *[0] * len(seen))
    else:
        names, leaves = tuple([n for n, _ in map_axes(e)]), []
        for v in seen:
            with_axis = Var(prims.expand_dims_p.infer(v.aval, dimensions=(0,)))
            eqns.append(Eqn(prims.expand_dims_p, [v], [with_axis], {"dimensions": (0,)}))
            leaves.append(with_axis)
        params["out_specs"] = (*params["out_specs"], *[(Split(names), *[None] * v.aval.ndim) for v in seen])
    params["call_jaxpr"] = ClosedJaxpr(Jaxpr(inner.jaxpr.constvars, inner.jaxpr.invars, eqns, [*outs, *leaves]), inner.consts)
    if "donated_invars" in params:
        params["donated_invars"] = (False,) * len(e.invars)
    ins = [a if type(a) is Literal else Var(a.aval) for a in e.invars]
    found = e.primitive.infer(*[a.aval for a in ins], **params)
    results = [Var(a) for a in found]
    program = ClosedJaxpr(Jaxpr((), [v for v in ins if type(v) is not Literal],
                                [Eqn(e.primitive, ins, results, params, e.source)], results))
    return program, seen, list(inner.eqns)


def is_map(e: Eqn) -> bool:
    """Return whether an equation is a map over devices of one process, which `expose_map` supports."""
    return e.primitive in _MAPS and e.params.get("global_axis_size") in (None, e.params.get("axis_size"))
