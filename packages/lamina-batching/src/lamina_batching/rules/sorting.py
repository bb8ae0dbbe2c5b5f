"""Batching rules of `sort` and `top_k`: all operands get the batch axis at the same position."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing.extend import bind

from ..extend import materialise
from ..tables import batching_rules

__all__: list[str] = []


def sort_batching(axis, args, dims, *, dimension, is_stable, num_keys):
    d = next(d for d in dims if d is not None)
    xs = [materialise(x, k, axis.size, d) for x, k in zip(args, dims, strict=True)]
    outs = bind(prims.sort_p, *xs, dimension=dimension + (dimension >= d), is_stable=is_stable, num_keys=num_keys)
    return outs, [d] * len(xs)


def top_k_batching(batch, args, dims, *, axis, k):
    d = dims[0]
    return bind(prims.top_k_p, args[0], axis=axis + (axis >= d), k=k), [d, d]


batching_rules.define(prims.sort_p, sort_batching)
batching_rules.define(prims.top_k_p, top_k_batching)
