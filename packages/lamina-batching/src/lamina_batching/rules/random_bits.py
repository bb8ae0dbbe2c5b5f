"""Batching rules of random bits: Threefry is elementwise; `rng_bit_generator` draws once, with the first key."""
from __future__ import annotations

from collections.abc import Sequence

from lamina_ir import prims
from lamina_ir.typing import ParamValue, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind

from ..extend import BatchAxis, materialise, move_axis
from ..tables import batching_rules
from .elementwise import align_operands
from .._typing import RuleResult

__all__: list[str] = []


def threefry2x32_batching(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None]) -> RuleResult:
    args, at = align_operands(axis, args, dims)
    return list(lax.threefry2x32(*args)), [at, at]


batching_rules.define(prims.threefry2x32_p, threefry2x32_batching)


def rng_bit_generator_batching(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int],
                               **params: ParamValue) -> RuleResult:
    """Draw the bits of all examples with the first key and advance only that key.

    This is one draw instead of many, and matches JAX's results for `rbg` keys. For the bits that each key would give
    alone, use `lax.map` over the keys.
    """
    keys = move_axis(args[0], dims[0], 0)
    if not axis.size:
        return [keys, lax.full((0, *params["shape"]), 0, params["dtype"])], [0, 0]
    first, rest = lax.slice_in_dim(keys, 0, 1), lax.slice_in_dim(keys, 1, axis.size)
    params["shape"] = axis.size, *params["shape"]
    moved, bits = bind(prims.rng_bit_generator_p, lax.squeeze(first, (0,)), **params)
    return [lax.concatenate([lax.expand_dims(moved, (0,)), rest], 0), bits], [0, 0]


def rng_uniform_batching(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None],
                         **params: ParamValue) -> RuleResult:
    bounds = tuple(materialise(x, d, axis.size) for x, d in zip(args, dims, strict=True))
    return lax.map(lambda ab: bind(prims.rng_uniform_p, *ab, **params), bounds), 0


batching_rules.define(prims.rng_bit_generator_p, rng_bit_generator_batching)
batching_rules.define(prims.rng_uniform_p, rng_uniform_batching)
