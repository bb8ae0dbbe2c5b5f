"""Transformation rules of the map primitives `xla_pmap`, `xmap` and `shard_map`.

JVP and batching rules follow from their region signatures. The transpose rule is that of the function from all members'
operands to all members' results. There a value shared by the members is one value. A result that is not mapped along
an axis is such a value, so its cotangent enters once. An unmapped operand gets the sum of the members' cotangents,
computed inside of the map.
"""
from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from lamina_autodiff.extend import (make_higher_order_rule, outside_map_context, is_linear, jvp_rules,
                                    transpose_program, transpose_rules)
from lamina_batching.extend import batching_rules
from lamina_batching.extend import make_higher_order_rule as batching_row
from lamina_ir import ClosedJaxpr, Primitive, prims, UnnamedAxis
from lamina_tracing import lax
from lamina_tracing.extend import bind, is_counted_once, eval_jaxpr, trace_state, stage, typeof
from lamina_ir.typing import AxisName, Function, ParamValue, Params, Value
from lamina_ir.extend.unchecked import annotate_varying_axes, drop_redundant_collectives

from .._typing import AxisBinding, Outputs

__all__: list[str] = []

Flags = tuple[bool, ...]


def make_map_transpose(prim: Primitive) -> Function:
    """Make the transpose rule of a map primitive."""
    signature = prim.region_signature
    assert signature is not None and signature.axis_binding is not None
    binds, transient = signature.axis_binding, signature.transient

    def transpose(cts: Sequence[Value], /, *args: Value, **params: ParamValue) -> Outputs:
        linear, active = tuple([is_linear(a) for a in args]), tuple([ct is not None for ct in cts])
        params = _with_typed_body(binds, params)
        ins, outs = params[binds.ins], params[binds.outs]
        names = binds.names(params)
        # the axes along which an operand or result is not mapped: all members along these share one value
        shared, agreed = ([names - binds.mapped_axes(params, entry) for entry in entries] for entries in (ins, outs))
        program, kept = _transpose_body(params["call_jaxpr"], binds.axes(params), linear, active, shared, agreed)
        residuals = [i for i, on in enumerate(linear) if not on]
        active_outs = [k for k, on in enumerate(active) if on]
        linear_ins = [i for i, on in enumerate(linear) if on]
        entries = (*[ins[i] for i in residuals], *[outs[k] for k in active_outs])
        fresh = {p: prim.defaults.get(p, (new,) * len(entries)) for p, new in transient.items()}
        back = bind(prim, *[args[i] for i in residuals], *[cts[k] for k in active_outs], **{
            **params, **fresh, "call_jaxpr": program, binds.ins: entries,
            binds.outs: tuple([ins[i] for i, on in zip(linear_ins, kept) if on])})
        found = dict(zip([i for i, on in zip(linear_ins, kept) if on], back))
        return found.get(0) if len(args) == 1 else [found.get(i) for i in range(len(args))]

    return transpose


def _with_typed_body(binds: AxisBinding, params: Params) -> Params:
    """Return the params with a body whose types name the axes along which values vary.

    Copies of programs that `linearize` stores may lack these. Types contain only named axes, so an unnamed axis gets a
    name if the members share any operand or result.
    """
    body = params["call_jaxpr"]
    taken = body.jaxpr.axis_names.union([f.name for f in trace_state.axes])
    if any(type(name) is UnnamedAxis for name in binds.names(params)) and None in (*params[binds.ins], *params[binds.outs]):
        name = next(n for n in (f"rows{i or ''}" for i in itertools.count()) if n not in taken)
        params = {**params, binds.params[0]: name}
    marks = [a.varying_axes | binds.mapped_axes(params, entry) for a, entry in zip(body.in_avals, params[binds.ins])]
    return {**params, "call_jaxpr": annotate_varying_axes(body, marks, taken | binds.names(params))}


def _transpose_body(body: ClosedJaxpr, axes: Sequence[tuple[AxisName, int]], linear: Flags, active: Flags,
                    shared: Sequence[frozenset[AxisName]],
                    agreed: Sequence[frozenset[AxisName]]) -> tuple[ClosedJaxpr, Flags]:
    """Return a member's program from residuals and cotangents of results to cotangents of linear operands, and which of
    these exist."""
    sizes = dict(axes)

    def make() -> tuple[ClosedJaxpr, Flags]:
        with outside_map_context(axes, body):
            # A result that is equal on all members of an axis along which it is mapped outside is a separate copy on
            # each member.
            overs = tuple([frozenset(sizes) - same for same in agreed])
            back = transpose_program(body, linear, active, (), overs, allow_unreduced=True)
            each = frozenset([name for name in sizes if not is_counted_once(name)])
            count = len(linear) - sum(linear)
            # If the members are not known to agree on an unmapped result, the map takes the first member's value. So
            # only that member gets the cotangent.
            firsts = [same & (a.varying_axes | each) for same, a, on in zip(agreed, body.out_avals, active) if on]
            sums = [same for same, on in zip([s for s, on in zip(shared, linear) if on], back.active_out) if on]

            def run(*xs: Value) -> list[Value]:
                cts = [_for_first_member(x, names) for x, names in zip(xs[count:], firsts)]
                found = eval_jaxpr(back.program, [*xs[:count], *cts])
                return [_sum_shared(ct, same & (typeof(ct).varying_axes | each)) for ct, same in zip(found, sums)]

            cts = [a.with_varying_axes(a.varying_axes - same) for a, same in zip(
                back.program.in_avals[count:], [same for same, on in zip(agreed, active) if on])]
            program = stage(run, [*back.program.in_avals[:count], *cts])[0]
            return drop_redundant_collectives(program, sizes), back.active_out

    key = ("transpose of a map", tuple(axes), linear, active, tuple(shared), tuple(agreed))
    return body.memo_with_settings(key, make)


def _for_first_member(ct: Value, names: frozenset[AxisName]) -> Value:
    """Return the cotangent on the first member of these axes and zero on the others."""
    for name in sorted(names, key=repr):
        ct = lax.select(lax.eq(lax.axis_index((name,)), np.int32(0)), ct, lax.full_like(ct, 0))
    return ct


def _sum_shared(ct: Value, names: frozenset[AxisName]) -> Value:
    """Sum the cotangent of a value shared by the members of these axes."""
    if not names:
        return ct
    found, = bind(prims.psum_p, ct, axes=tuple(sorted(names, key=repr)), axis_index_groups=None)
    return found


for _op in (prims.xla_pmap_p, prims.xmap_p, prims.shard_map_p):
    jvp_rules.define(_op, make_higher_order_rule(_op))
    transpose_rules.define(_op, make_map_transpose(_op))
    batching_rules.define(_op, batching_row(_op))
