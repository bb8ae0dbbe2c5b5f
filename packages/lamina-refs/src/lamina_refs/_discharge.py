"""Replace reads and writes of references in programs: the values become operands, and the final values results.

An equation with regions that has references among its operands is bound on their values. A loop carries them, a call or a
branch returns them; then they are written to the references. So a program that is being staged holds reads and writes only
at its top level, and no transformation sees a reference.
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, Primitive, ShapedArray, Var, prims
from lamina_ir.extend import CARRY, OperandSpec, RegionView
from lamina_ir.typing import Params, Value
from lamina_tracing.extend import bind, typeof

from ._ref import Ref, vary_over_axes
from ._types import ref_get_p, ref_set_p

__all__ = ["Discharged", "bind_discharged", "discharge_program"]

_CUSTOM = (prims.custom_jvp_call_p, prims.custom_vjp_call_p)


class Discharged(NamedTuple):
    """A program on values instead of references.

    Attributes:
      program: takes the values; returns the results, then the final values of all references.
      written: the positions of the arguments to which the program writes.
    """

    program: ClosedJaxpr
    written: frozenset[int]


def discharge_program(closed: ClosedJaxpr, avals: dict[int, ShapedArray]) -> Discharged:
    """Return a program on the values of its references; cached on the program.

    Args:
      closed: the program.
      avals: position of each argument that is a reference -> the type of its value.
    Returns:
      The program, and the references to which it writes.
    """
    return closed.memo(("discharge references", tuple(avals.items())), lambda: _discharge(closed, avals))


def _discharge(closed: ClosedJaxpr, avals: dict[int, ShapedArray]) -> Discharged:
    jaxpr = closed.jaxpr
    invars = list(jaxpr.invars)
    values: dict[Var, Any] = {}  # reference -> the variable of its value at this point of the program
    for k, aval in avals.items():
        values[invars[k]] = Var(aval)
        invars[k] = values[jaxpr.invars[k]]
    reads: dict[Var, Any] = {}  # result of a read -> the variable of the value
    written: set[Var] = set()
    eqns = []
    for e in jaxpr.eqns:
        operands = [v if type(v) is Literal else reads.get(v, v) for v in e.invars]
        if e.primitive is ref_get_p:
            reads[e.outvars[0]] = values[operands[0]]
        elif e.primitive is ref_set_p:
            values[operands[0]] = operands[1]
            written.add(operands[0])
        elif all(a is b for a, b in zip(operands, e.invars)):
            eqns.append(e)
        else:
            eqns.append(Eqn(e.primitive, operands, e.outvars, e.params, e.source))
    outvars = [v if type(v) is Literal else reads.get(v, v) for v in jaxpr.outvars]
    refs = [jaxpr.invars[k] for k in avals]
    made = ClosedJaxpr(Jaxpr(jaxpr.constvars, invars, eqns, [*outvars, *[values[v] for v in refs]]), closed.consts)
    return Discharged(made, frozenset([k for k in avals if jaxpr.invars[k] in written]))


def bind_discharged(prim: Primitive, args: Sequence[Value], params: Params) -> tuple[Value, ...]:
    """Bind a primitive with regions on the values of references, and write their final values."""
    w = RegionView(prim, params, len(args))
    refs = {i: a for i, a in enumerate(args) if isinstance(a, Ref)}
    values = [vary_over_axes(a.read(prim.name)) if i in refs else a for i, a in enumerate(args)]
    programs, written = _discharge_regions(w, {i: typeof(values[i]) for i in refs})
    _check_operands(w, refs, written)
    run = _bind_loop if w.region_signature.loops else _bind_call
    outs = run(w, refs, values, programs, sorted(written))
    for i, out in zip(sorted(written), outs[w.n_results:]):
        refs[i].write(out, prim.name)
    return tuple(outs[:w.n_results])


class _Region(NamedTuple):
    """A discharged region: the program, and the positions of its results that are final values, by operand."""

    program: ClosedJaxpr
    finals: dict[int, int]
    written: set[int]


def _discharge_regions(w: RegionView, avals: dict[int, ShapedArray]) -> tuple[list[_Region], set[int]]:
    regions = []
    for region in w.regions:
        inner = {k: avals[i] for k, i in enumerate(region.ins)
                 if i in avals and region.program.jaxpr.invars[k].aval.is_reference}
        made, n = discharge_program(region.program, inner), len(region.program.jaxpr.outvars)
        finals = {region.ins[k]: n + at for at, k in enumerate(inner)}
        regions.append(_Region(made.program, finals, {region.ins[k] for k in made.written}))
    return regions, {i for region in regions for i in region.written}


def _check_operands(w: RegionView, refs: dict[int, Ref], written: Collection[int]) -> None:
    name, binding = w.prim.name, w.region_signature.axis_binding
    for i in written:
        if w.prim in _CUSTOM:
            raise NotImplementedError(f"{name}: the function with derivative rules writes to the reference "
                                      f"{refs[i].aval.str_long()} while it is staged. Call jit inside grad, or return the value "
                                      "and write it outside")
        if binding is not None:
            raise ValueError(f"{name}: the mapped function writes to the reference {refs[i].aval.str_long()}, which all members "
                             "share. Make the reference in the mapped function, or return the values and write them outside")
        for j in refs:
            if j != i and refs[j] is refs[i] and not w.region_signature.test:
                raise ValueError(f"{name}: the reference {refs[i].aval.str_long()} is passed twice, or is passed and also used "
                                 "by the function from outside. Pass it once")


def _bind_call(w: RegionView, refs: dict[int, Ref], values: Sequence[Value], regions: Sequence[_Region],
               written: Sequence[int]) -> list[Value]:
    """Bind a call, branch or map: its regions return the final values."""
    specs = [OperandSpec(w.groups[i], typeof(values[i]), i, False) if i in refs else w.operands([i])[0]
             for i in range(len(values))]
    results = [*w.results(), *[OperandSpec(1, typeof(values[i])) for i in written]]
    programs = [(made.program, region.ins, [*range(w.n_results), *[made.finals[i] for i in written]])
                for region, made in zip(w.regions, regions)]
    return _rebuild(w, values, specs, results, [_order_results(*p) for p in programs])


def _bind_loop(w: RegionView, refs: dict[int, Ref], values: Sequence[Value], regions: Sequence[_Region],
               written: Sequence[int]) -> list[Value]:
    """Bind a loop: references to which it writes become carries."""
    if w.region_signature.test and regions[0].written:
        raise NotImplementedError(f"{w.prim.name}: the condition of the loop writes to a reference. Write to it in the body")
    moved = {i: j for i in refs for j in written if refs[i] is refs[j]}  # the test of a loop has operands of its own
    keep = [i for i in range(len(values)) if i not in moved]
    order = [*keep, *written]
    position = {i: order.index(moved.get(i, i)) for i in range(len(values))}
    carry = w.region_signature.group(CARRY)
    specs = [OperandSpec(w.groups[i], typeof(values[i]), i, False) if i in refs and w.kinds[i] != "scanned"
             else w.operands([i])[0] for i in keep]
    specs += [OperandSpec(carry, typeof(values[j])) for j in written]  # type: ignore[arg-type]
    results = [*w.results(), *[OperandSpec(0, typeof(values[j])) for j in written]]
    programs = []
    for region, made in zip(w.regions, regions):
        outs = range(1) if region.is_test else [*range(w.n_results), *[made.finals[j] for j in written]]
        programs.append(_order_results(made.program, [position[i] for i in region.ins], outs))
    return _rebuild(w, [values[i] for i in order], specs, results, programs)


_Program = tuple[ClosedJaxpr, Sequence[int], Sequence[int]]


def _order_results(program: ClosedJaxpr, ins: Sequence[int], outs: Sequence[int]) -> _Program:
    """Return the entry of `RegionView.rebuild` for a program of whose results only `outs` are used, in this order."""
    jaxpr = program.jaxpr
    key = ("select results", tuple(outs))
    made = program.memo(key, lambda: ClosedJaxpr(Jaxpr(
        jaxpr.constvars, jaxpr.invars, jaxpr.eqns, [jaxpr.outvars[j] for j in outs], jaxpr.axis_names, jaxpr.effectful),
        program.consts))
    return made, ins, range(len(outs))


def _rebuild(w: RegionView, values: Sequence[Value], specs: Sequence[OperandSpec], results: Sequence[OperandSpec],
             programs: Sequence[_Program]) -> list[Value]:
    rebuilt = w.rebuild(specs, results, programs)
    return rebuilt.reorder_results(bind(w.prim, *[values[i] for i in rebuilt.operands], **rebuilt.params))
