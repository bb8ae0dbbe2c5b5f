"""Batching rules of reductions: axes after the batch axis are renumbered."""
from __future__ import annotations

from lamina_ir import MissingRuleError, prims
from lamina_tracing.extend import bind

from ..extend import materialise
from ..tables import batching_rules

__all__ = ["split_reduce_operands"]


def _make_reduction_rule(prim):
    def rule(axis, args, dims, *, axes, **params):
        d = dims[0]
        axes = tuple([a + (a >= d) for a in axes])
        return bind(prim, args[0], axes=axes, **params), d - sum([a < d for a in axes])
    return rule


def _make_cumulative_rule(prim):
    def rule(batch, args, dims, *, axis, reverse):
        d = dims[0]
        return bind(prim, args[0], axis=axis + (axis >= d), reverse=reverse), d
    return rule


def split_reduce_operands(name, axis, args, dims):
    """Return (operands batched at one dimension, initial values, that dimension) of `reduce` or `reduce_window`."""
    n = len(args) // 2
    if any(d is not None for d in dims[n:]):
        raise MissingRuleError(f"vmap of `{name}`: the initial values must not be batched; combine them with the "
                               "result of a reduction that starts from an identity")
    d = next(d for d in dims if d is not None)
    return [materialise(x, k, axis.size, d) for x, k in zip(args[:n], dims, strict=False)], args[n:], d


def reduce_batching(axis, args, dims, *, computation, dimensions):
    xs, inits, d = split_reduce_operands("reduce", axis, args, dims)
    axes = tuple([a + (a >= d) for a in dimensions])
    outs = bind(prims.reduce_p, *xs, *inits, computation=computation, dimensions=axes)
    return outs, [d - sum([a < d for a in axes])] * len(xs)


for _prim in (prims.reduce_sum_p, prims.reduce_prod_p, prims.reduce_max_p, prims.reduce_min_p, prims.reduce_and_p,
              prims.reduce_or_p, prims.reduce_xor_p, prims.argmax_p, prims.argmin_p):
    batching_rules.define(_prim, _make_reduction_rule(_prim))
for _prim in (prims.cumsum_p, prims.cumprod_p, prims.cummax_p, prims.cummin_p):
    batching_rules.define(_prim, _make_cumulative_rule(_prim))
batching_rules.define(prims.reduce_p, reduce_batching)
