"""Rows of the maps (`xla_pmap`, `xmap`, `shard_map`) in the tables of the rooms below.

Forward derivatives and batches follow from their flow. The transpose is that of the function from all members' operands to all
members' results, in which a value that the members share is one value: a result that lies along no axis is one, whose cotangent
is taken as it is, and an operand that all have gets the sum of their cotangents, made inside.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_autodiff.extend import flow_row, from_outside, is_linear, jvp_rules, transpose_program, transpose_rules
from lamina_batching.extend import batching_rules
from lamina_batching.extend import flow_row as batching_row
from lamina_ir import ClosedJaxpr, UnnamedAxis, prims
from lamina_ir.extend import typed_program, without_needless
from lamina_tracing import lax
from lamina_tracing.extend import bind, counts_once, eval_jaxpr, now, stage, typeof

__all__: list[str] = []

Flags = tuple[bool, ...]


def map_transpose(prim: Any) -> Callable[..., Any]:
    """The row of a map in `transpose_rules`."""
    binds = prim.flow.binds

    def row(cts: Sequence[Any], /, *args: Any, **params: Any) -> Any:
        linear, active = tuple([is_linear(a) for a in args]), tuple([ct is not None for ct in cts])
        params = _typed(binds, params)
        ins, outs = params[binds.ins], params[binds.outs]
        names = binds.names(params)
        # Which axes an operand or result does not lie along: one value for all members of these.
        shared, agreed = ([names - binds.along(params, entry) for entry in entries] for entries in (ins, outs))
        program, kept = _backward(params["call_jaxpr"], binds.axes(params), linear, active, shared, agreed)
        held = [i for i, on in enumerate(linear) if not on]
        given = [k for k, on in enumerate(active) if on]
        wanted = [i for i, on in enumerate(linear) if on]
        entries = (*[ins[i] for i in held], *[outs[k] for k in given])
        fresh = {p: prim.defaults.get(p, (new,) * len(entries)) for p, new in prim.flow.spent.items()}
        back = bind(prim, *[args[i] for i in held], *[cts[k] for k in given], **{
            **params, **fresh, "call_jaxpr": program, binds.ins: entries,
            binds.outs: tuple([ins[i] for i, on in zip(wanted, kept) if on])})
        found = dict(zip([i for i, on in zip(wanted, kept) if on], back))
        return found.get(0) if len(args) == 1 else [found.get(i) for i in range(len(args))]

    return row


def _typed(binds: Any, params: dict[str, Any]) -> dict[str, Any]:
    """The params of a map whose program has types for what lies along its axes; copies that `linearize` keeps may lack them.
    Types speak of named axes only, so an axis without a name has one if there is anything that its members share."""
    body = params["call_jaxpr"]
    taken = body.jaxpr.axis_names.union([f.name for f in now.axes])
    if any(type(name) is UnnamedAxis for name in binds.names(params)) and None in (*params[binds.ins], *params[binds.outs]):
        name = next(n for n in (f"rows{i or ''}" for i in itertools.count()) if n not in taken)
        params = {**params, binds.params[0]: name}
    marks = [a.over | binds.along(params, entry) for a, entry in zip(body.in_avals, params[binds.ins])]
    return {**params, "call_jaxpr": typed_program(body, marks, taken | binds.names(params))}


def _backward(body: ClosedJaxpr, axes: Sequence[tuple[Any, int]], linear: Flags, active: Flags, shared: Sequence[Any],
              agreed: Sequence[Any]) -> tuple[ClosedJaxpr, Flags]:
    """A member's program from what is held and the cotangents of results to those of linear operands, and which have one."""
    sizes = dict(axes)

    def make() -> tuple[ClosedJaxpr, Flags]:
        with from_outside(axes, body):
            # A result that is the same on all members of an axis, along which it lies outside, becomes a copy on each.
            overs = tuple([frozenset(sizes) - same for same in agreed])
            back = transpose_program(body, linear, active, (), overs, open=True)
            each = frozenset([name for name in sizes if not counts_once(name)])
            count = len(linear) - sum(linear)
            # Where it is not known that all members have one value, the first one's is taken.
            firsts = [same & (a.over | each) for same, a, on in zip(agreed, body.out_avals, active) if on]
            sums = [same for same, on in zip([s for s, on in zip(shared, linear) if on], back.active_out) if on]

            def run(*xs: Any) -> list[Any]:
                cts = [_of_the_first(x, names) for x, names in zip(xs[count:], firsts)]
                found = eval_jaxpr(back.program, [*xs[:count], *cts])
                return [_summed(ct, same & (typeof(ct).over | each)) for ct, same in zip(found, sums)]

            cts = [a.differing(a.over - same) for a, same in zip(
                back.program.in_avals[count:], [same for same, on in zip(agreed, active) if on])]
            program = stage(run, [*back.program.in_avals[:count], *cts])[0]
            return without_needless(program, sizes), back.active_out

    key = ("transpose of a map", tuple(axes), linear, active, tuple(shared), tuple(agreed))
    return body.derived(key, make)


def _of_the_first(ct: Any, names: frozenset[Any]) -> Any:
    """The cotangent for the first member of these axes, and zero for the others."""
    for name in sorted(names, key=repr):
        ct = lax.select(lax.eq(lax.axis_index((name,)), np.int32(0)), ct, lax.full_like(ct, 0))
    return ct


def _summed(ct: Any, names: Any) -> Any:
    """The cotangent of what the members of these axes share."""
    if not names:
        return ct
    found, = bind(prims.psum_p, ct, axes=tuple(sorted(names, key=repr)), axis_index_groups=None)
    return found


for _op in (prims.xla_pmap_p, prims.xmap_p, prims.shard_map_p):
    jvp_rules.define(_op, flow_row(_op))
    transpose_rules.define(_op, map_transpose(_op))
    batching_rules.define(_op, batching_row(_op))
