"""Batching rules of PRNG keys and their uint32 key data: the batch axis comes before the axes of the key data."""
from __future__ import annotations

from collections.abc import Sequence

from lamina_ir import prims
from lamina_ir.typing import ParamValue, Value
from lamina_tracing.extend import bind

from ..extend import BatchAxis, move_axis
from ..tables import batching_rules

__all__: list[str] = []


def random_wrap_batching(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int],
                         **params: ParamValue) -> tuple[Value, int]:
    return bind(prims.random_wrap_p, move_axis(args[0], dims[0], 0), **params), 0


batching_rules.define(prims.random_wrap_p, random_wrap_batching)
batching_rules.define(prims.random_unwrap_p, lambda axis, args, dims, **params: (
    bind(prims.random_unwrap_p, args[0], **params), dims[0]))
