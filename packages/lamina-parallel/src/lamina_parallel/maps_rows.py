"""Rows of maps of several axes (`xmap`, `shard_map`) in the tables of the rooms below.

Forward derivatives and batches follow from their flow. The transpose is that of the function from all members' operands to all
members' results: what all members share has the sum of their cotangents, made inside; a result that all members agree on is the
mean of theirs, so each gets its share.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lamina_autodiff.extend import flow_row, is_linear, jvp_rules, transpose_program, transpose_rules
from lamina_batching.extend import batching_rules
from lamina_batching.extend import flow_row as batching_row
from lamina_ir import ClosedJaxpr, config, prims
from lamina_ir.extend import without_needless
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, bind, bound_axes, eval_jaxpr, scalar, stage, typeof

__all__: list[str] = []

Flags = tuple[bool, ...]


def map_transpose(prim: Any) -> Callable[..., Any]:
    """The row of a map of several axes in `transpose_rules`."""
    binds = prim.flow.binds

    def row(cts: Sequence[Any], /, *args: Any, **params: Any) -> Any:
        linear, active = tuple([is_linear(a) for a in args]), tuple([ct is not None for ct in cts])
        ins, outs = params[binds.ins], params[binds.outs]
        names = binds.names(params)
        # Which axes an operand or result does not lie along: one value for all members of these.
        shared, agreed = ([names - binds.along(params, entry) for entry in entries] for entries in (ins, outs))
        program, kept = _backward(params["call_jaxpr"], binds.axes(params), linear, active, shared, agreed)
        held = [i for i, on in enumerate(linear) if not on]
        given = [k for k, on in enumerate(active) if on]
        wanted = [i for i, on in enumerate(linear) if on]
        back = bind(prim, *[args[i] for i in held], *[cts[k] for k in given], **{
            **params, "call_jaxpr": program, binds.ins: (*[ins[i] for i in held], *[outs[k] for k in given]),
            binds.outs: tuple([ins[i] for i, on in zip(wanted, kept) if on]), "donated_invars": ()})
        found = dict(zip([i for i, on in zip(wanted, kept) if on], back))
        return found.get(0) if len(args) == 1 else [found.get(i) for i in range(len(args))]

    return row


def _backward(body: ClosedJaxpr, axes: Sequence[tuple[Any, int]], linear: Flags, active: Flags, shared: Sequence[Any],
              agreed: Sequence[Any]) -> tuple[ClosedJaxpr, Flags]:
    """A member's program from what is held and the cotangents of results to those of linear operands, and which have one."""
    sizes = dict(axes)
    once = config.replicated_counts_once.value

    def make() -> tuple[ClosedJaxpr, Flags]:
        with bound_axes(*[AxisFrame(name, size) for name, size in axes]):
            # A result that is the same on all members of an axis, along which it lies outside, becomes a copy on each.
            overs = tuple([frozenset(sizes) - same for same in agreed])
            back = transpose_program(body, linear, active, (), overs)
            count = len(linear) - sum(linear)
            parts = [1.0 if once else 1 / math.prod([sizes[name] for name in same])
                     for same, on in zip(agreed, active) if on]
            sums = [same for same, on in zip([s for s, on in zip(shared, linear) if on], back.active_out) if on]

            def run(*xs: Any) -> list[Any]:
                cts = [x if n == 1 else lax.mul(x, scalar(n, typeof(x).dtype)) for x, n in zip(xs[count:], parts)]
                found = eval_jaxpr(back.program, [*xs[:count], *cts])
                return [_summed(ct, same, once) for ct, same in zip(found, sums)]

            cts = [a.differing(a.over - same) for a, same in zip(
                back.program.in_avals[count:], [same for same, on in zip(agreed, active) if on])]
            program = stage(run, [*back.program.in_avals[:count], *cts])[0]
            return without_needless(program, sizes), back.active_out

    key = ("transpose of a map", tuple(axes), linear, active, tuple(shared), tuple(agreed))
    return body.derived(key, make)


def _summed(ct: Any, names: Any, once: bool) -> Any:
    """The cotangent of what the members of these axes share. Where what is the same counts once, one that does not differ is
    the sum already."""
    if once:
        names = names & typeof(ct).over
    if not names:
        return ct
    found, = bind(prims.psum_p, ct, axes=tuple(sorted(names, key=repr)), axis_index_groups=None)
    return found


for _op in (prims.xmap_p, prims.shard_map_p):
    jvp_rules.define(_op, flow_row(_op))
    transpose_rules.define(_op, map_transpose(_op))
    batching_rules.define(_op, batching_row(_op))
