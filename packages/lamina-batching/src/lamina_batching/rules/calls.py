"""Calls: the batch of a call is a call of the batched program."""
from __future__ import annotations

from typing import Any

from lamina_ir import prims
from lamina_tracing.extend import bind

from ..batch import BatchAxis, batch_program, move_to
from ..tables import batching_rules

__all__: list[str] = []


def xla_call_batch(axis: BatchAxis, args: Any, dims: Any, *, call_jaxpr: Any, **params: Any) -> Any:
    batched = batch_program(call_jaxpr, axis, tuple(d is not None for d in dims))
    moved = [a if d is None else move_to(a, d, 0) for a, d in zip(args, dims)]
    outs = bind(prims.xla_call_p, *moved, call_jaxpr=batched.program, **params)
    return outs, [0 if on else None for on in batched.batched_out]


batching_rules.define(prims.xla_call_p, xla_call_batch)
