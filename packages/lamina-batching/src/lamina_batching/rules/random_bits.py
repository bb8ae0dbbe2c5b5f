"""Threefry draws element by element: the elementwise rule, with two results. The compiler's draw in a loop."""
from __future__ import annotations

from typing import Any

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind

from ..extend import materialise, move_to
from ..tables import batching_rules
from .elementwise import aligned

__all__: list[str] = []


def threefry2x32_batching(axis: Any, args: Any, dims: Any) -> Any:
    args, at = aligned(axis, args, dims)
    return list(lax.threefry2x32(*args)), [at, at]


batching_rules.define(prims.threefry2x32_p, threefry2x32_batching)


def rng_bit_generator_batching(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
    """Each key draws for itself, one after the other."""
    keys = move_to(args[0], dims[0], 0)
    return list(lax.map(lambda k: tuple(bind(prims.rng_bit_generator_p, k, **params)), keys)), [0, 0]


def rng_uniform_batching(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
    bounds = tuple(materialise(x, d, axis.size) for x, d in zip(args, dims, strict=True))
    return lax.map(lambda ab: bind(prims.rng_uniform_p, *ab, **params), bounds), 0


batching_rules.define(prims.rng_bit_generator_p, rng_bit_generator_batching)
batching_rules.define(prims.rng_uniform_p, rng_uniform_batching)
