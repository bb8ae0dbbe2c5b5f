"""Replace reads and writes of references in programs: the values become operands, and the final values results.

An equation with regions that has references among its operands is bound on their values. A loop carries them, a call or a
branch returns them; then they are written to the references. So a program that is being staged holds reads and writes only
at its top level, and no transformation sees a reference.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from typing_extensions import override
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, Primitive, ShapedArray, Var, prims, trees
from lamina_ir.extend import CARRY, SCANNED, OperandSpec, RegionView
from lamina_ir.typing import Params, Value
from lamina_ir.trees import PyTreeDef
from lamina_tracing import hooks
from lamina_tracing.extend import (EVALUATION, JitSpec, StagedProgram, Tracer, bind, eval_jaxpr, jaxpr_as_fun, stage,
                                   trace_state, typeof)

from ._ref import REF_TRACE, Ref, make_ref, vary_over_axes
from ._types import RefType, ref_get_p, ref_set_p

__all__ = ["Discharged", "bind_discharged", "discharge_program"]

_NAMES = {"xla_call": "jit", "xla_pmap": "pmap"}  # names in errors
_MIN_DONATED = 1 << 16  # bytes; a launch with a donated argument waits for it, which takes longer than a small copy
_CUSTOM = (prims.custom_jvp_call_p, prims.custom_vjp_call_p)
_CUSTOM_FIX = "Call jit inside grad, or return the value and write it outside"


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
    if any(v.aval.is_reference for e in jaxpr.eqns if e.primitive not in (ref_get_p, ref_set_p) for v in e.invars):
        return _discharge_nested(closed, avals)
    invars = list(jaxpr.invars)
    values: dict[Var, Any] = {}  # reference -> the variable of its value at this point of the program
    for k, aval in avals.items():
        values[invars[k]] = Var(aval)
        invars[k] = values[jaxpr.invars[k]]
    reads: dict[Var, Any] = {}  # result of a read -> the variable of the value
    written: set[Var] = set()
    eqns = []
    for e in jaxpr.eqns:
        operands: list[Any] = [v if type(v) is Literal else reads.get(v, v) for v in e.invars]
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


def _discharge_nested(closed: ClosedJaxpr, avals: dict[int, ShapedArray]) -> Discharged:
    """Discharge a program with references among the operands of nested programs, by evaluating it on references."""
    written: list[int] = []

    def run(*xs: Value) -> list[Value]:
        refs = {k: make_ref(xs[k]) for k in avals}
        before = {k: ref.read() for k, ref in refs.items()}
        outs = eval_jaxpr(closed, [refs.get(k, x) for k, x in enumerate(xs)])
        finals = {k: ref.read() for k, ref in refs.items()}
        written[:] = [k for k in refs if finals[k] is not before[k]]
        return [*outs, *finals.values()]

    made, outer = stage(run, [avals.get(k, a) for k, a in enumerate(closed.in_avals)])
    assert not outer  # a program holds no values of enclosing traces
    return Discharged(made, frozenset(written))


def bind_discharged(prim: Primitive, args: Sequence[Value], params: Params) -> tuple[Value, ...]:
    """Bind a primitive with regions on the values of references, and write their final values."""
    signature = prim.region_signature
    if not signature.body or signature.indivisible and prim not in _CUSTOM:  # type: ignore[union-attr]
        raise NotImplementedError(f"{prim.name}: a function that it takes uses a mutable reference from outside. Read the "
                                  "reference before, with value = ref[...], and use the value")
    if prim in _CUSTOM:
        params = {**params, **{k: _discharge_rule(params["name"], params[k]) for k in ("jvp", "fwd", "bwd") if k in params}}
    if prim is prims.xla_call_p and _is_plain_call(args, params):
        return _call_compiled(args, params)
    w, name = RegionView(prim, params, len(args)), _NAMES.get(prim.name, prim.name)
    refs = {i: a for i, a in enumerate(args) if isinstance(a, Ref)}
    values = [vary_over_axes(a.read(name)) if i in refs else a for i, a in enumerate(args)]
    # The types of the values inside: that of a slice if the loop goes along the reference.
    inner = {i: w.inner_aval(i).inner if w.kinds[i] == SCANNED else typeof(values[i])  # type: ignore[attr-defined]
             for i in refs if w.inner_aval(i).is_reference}
    programs, written = _discharge_regions(w, inner)
    _check_operands(w, refs, written)
    run = _bind_loop if w.region_signature.loops else _bind_call
    outs = run(w, refs, inner, values, programs, sorted(written))
    for i, out in zip(sorted(written), outs[w.n_results:]):
        refs[i].write(out, name)
    return tuple(outs[:w.n_results])


def _discharge_rule(name: str, rule: prims.Rule) -> prims.Rule:
    """Return a derivative rule on values instead of the references that it reads."""
    def make() -> ClosedJaxpr:
        program = rule.program()
        made = discharge_program(program, {k: a.inner for k, a in enumerate(program.in_avals) if isinstance(a, RefType)})
        if made.written or any(a.is_reference for a in program.out_avals):
            raise NotImplementedError(f"{name}: a derivative rule of a staged function writes to a reference, or its backward "
                                      "pass uses one. "
                                      f"{_CUSTOM_FIX}")
        return _order_results(made.program, (), range(len(program.jaxpr.outvars)))[0]

    return prims.Rule(rule.name, make)


# --- calls of jitted functions on arrays
def _is_plain_call(args: Sequence[Value], params: Params) -> bool:
    """Return whether a call runs at once, on the devices of its arguments."""
    return (trace_state.trace is EVALUATION and params["device"] is None and params["backend"] is None
            and all(isinstance(a, Ref) and a.is_lasting for a in args if isinstance(a, Tracer)) and not trace_state.map_level)


def _call_compiled(args: Sequence[Value], params: Params) -> tuple[Value, ...]:
    """Call a jitted program. It reuses the memory of values that only the reference holds."""
    closed: ClosedJaxpr = params["call_jaxpr"]
    refs = {i: a for i, a in enumerate(args) if isinstance(a, Ref)}
    if len({id(a) for a in refs.values()}) < len(refs):
        _check_operands(RegionView(prims.xla_call_p, params, len(args)), refs, ())
    taken = {i: a.take("jit") for i, a in refs.items()}
    program = discharge_program(closed, {i: typeof(x) for i, (x, _) in taken.items()})
    written = sorted(program.written)
    donated = (*[i for i in written if taken[i][1] and taken[i][0].nbytes >= _MIN_DONATED],
               *[i for i, d in enumerate(params["donated_invars"]) if d])
    n = len(closed.jaxpr.outvars)
    call, owned = closed.memo(("compiled with references", donated), lambda: _compile(program, list(refs), n, donated, params))
    outs = call(*[taken[i][0] if i in taken else a for i, a in enumerate(args)])
    for i, out, is_owned in zip(written, outs[n:], owned):
        refs[i].replace(out, is_owned)
    return tuple(outs[:n])


def _compile(program: Discharged, refs: Sequence[int], n: int, donated: tuple[int, ...],
             params: Params) -> tuple[Callable[..., Any], list[bool]]:
    """Return a jitted function of values, and for each final value whether no other result is the same variable."""
    made, _, outs = _order_results(program.program, (), [*range(n), *[n + refs.index(i) for i in sorted(program.written)]])
    finals = made.jaxpr.outvars[n:]
    others = {id(v) for v in (*made.jaxpr.outvars[:n], *made.jaxpr.invars)}
    is_owned = [id(v) not in others and sum(v is u for u in finals) == 1 for v in finals]
    spec = _ProgramSpec(jaxpr_as_fun(made), donate_argnums=donated, keep_unused=True)
    spec.program, spec.name = made, params["name"]
    return spec.make_callable(hooks.dispatcher), is_owned


class _ProgramSpec(JitSpec):
    """A jitted function that is already a program."""

    program: ClosedJaxpr

    @override
    def trace_avals(self, avals: Sequence[ShapedArray], tree: PyTreeDef, static: Any) -> StagedProgram:
        return StagedProgram(self.program, [], trees.tree_structure([0] * len(self.program.out_avals)))


class _Region(NamedTuple):
    """A discharged region: the program, and the positions of its results that are final values, by operand."""

    program: ClosedJaxpr
    finals: dict[int, int]
    written: set[int]


def _discharge_regions(w: RegionView, avals: dict[int, ShapedArray]) -> tuple[list[_Region], set[int]]:
    regions = []
    for region in w.regions:
        inner = {k: avals[i] for k, i in enumerate(region.ins) if i in avals}
        made, n = discharge_program(region.program, inner), len(region.program.jaxpr.outvars)
        finals = {region.ins[k]: n + at for at, k in enumerate(inner)}
        regions.append(_Region(made.program, finals, {region.ins[k] for k in made.written}))
    return regions, {i for region in regions for i in region.written}


def _check_operands(w: RegionView, refs: dict[int, Ref], written: Collection[int]) -> None:
    name, binding = _NAMES.get(w.prim.name, w.prim.name), w.region_signature.axis_binding
    if not w.region_signature.test:  # the test and the body of a loop have operands of their own
        for i, j in itertools.combinations(refs, 2):
            if refs[i] is refs[j]:
                raise ValueError(f"{name}: the reference {refs[i].aval.str_long()} is passed twice, or is passed and also "
                                 "used by the function from outside. Pass it once")
    for i in written:
        if w.prim in _CUSTOM:
            raise NotImplementedError(f"{name}: the function with derivative rules writes to the reference "
                                      f"{refs[i].aval.str_long()} while it is staged. {_CUSTOM_FIX}")
        if binding is not None:
            raise ValueError(f"{name}: the mapped function writes to the reference {refs[i].aval.str_long()}, which all "
                             "members share. Make the reference in the mapped function, or return the values and write "
                             "them outside")


_Types = dict[int, ShapedArray]


def _operand(w: RegionView, inner: _Types, i: int) -> OperandSpec:
    return OperandSpec(w.groups[i], inner[i], i, False) if i in inner else w.operands([i])[0]


def _bind_call(w: RegionView, refs: dict[int, Ref], inner: _Types, values: Sequence[Value], regions: Sequence[_Region],
               written: Sequence[int]) -> list[Value]:
    """Bind a call, branch or map: its regions return the final values."""
    specs = [_operand(w, inner, i) for i in range(len(values))]
    results = [*w.results(), *[OperandSpec(1, inner[i]) for i in written]]
    programs = [(made.program, region.ins, [*range(w.n_results), *[made.finals[i] for i in written]])
                for region, made in zip(w.regions, regions)]
    return _rebuild(w, values, specs, results, [_order_results(*p) for p in programs])


def _bind_loop(w: RegionView, refs: dict[int, Ref], inner: _Types, values: Sequence[Value], regions: Sequence[_Region],
               written: Sequence[int]) -> list[Value]:
    """Bind a loop: references to which it writes become carries; those along which it goes, stacked results."""
    if w.region_signature.test and regions[0].written:
        raise NotImplementedError("while_loop: the condition of the loop writes to a reference. Write to it in the body")
    carries = [j for j in written if w.kinds[j] != SCANNED]
    moved = {i: j for i in refs for j in carries if refs[i] is refs[j]}  # the test of a loop has operands of its own
    keep = [i for i in range(len(values)) if i not in moved]
    order = [*keep, *carries]
    position = {i: order.index(moved.get(i, i)) for i in range(len(values))}
    carry = w.region_signature.group(CARRY)
    specs = [_operand(w, inner, i) for i in keep]
    specs += [OperandSpec(carry, inner[j]) for j in carries]  # type: ignore[arg-type]
    results = [*w.results(), *[OperandSpec(int(w.kinds[j] == SCANNED), inner[j]) for j in written]]
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


REF_TRACE.bind_discharged = bind_discharged
