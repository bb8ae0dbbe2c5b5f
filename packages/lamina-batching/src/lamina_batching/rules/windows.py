"""Batching rules of window primitives: windows have length 1 along the batch axis."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing.extend import bind

from ..extend import materialise
from ..tables import batching_rules
from .reductions import split_reduce_operands

__all__: list[str] = []

_NEUTRAL = {"base_dilation": 1, "padding": (0, 0), "window_dilation": 1, "window_dimensions": 1, "window_strides": 1}


def _insert_batch_axis(params, d):
    """Insert the batch axis `d` into the window params, with window length 1."""
    return {k: (*v[:d], _NEUTRAL[k], *v[d:]) if k in _NEUTRAL else v for k, v in params.items()}


def _make_window_rule(prim):
    def rule(axis, args, dims, **params):
        d = next(d for d in dims if d is not None)
        xs = [materialise(x, k, axis.size, d) for x, k in zip(args, dims, strict=True)]
        return bind(prim, *xs, **_insert_batch_axis(params, d)), d
    return rule


def reduce_window_batching(axis, args, dims, **params):
    xs, inits, d = split_reduce_operands("reduce_window", axis, args, dims)
    return bind(prims.reduce_window_p, *xs, *inits, **_insert_batch_axis(params, d)), [d] * len(xs)


for _prim in (prims.reduce_window_sum_p, prims.reduce_window_prod_p, prims.reduce_window_max_p,
              prims.reduce_window_min_p, prims.select_and_gather_add_p, prims.select_and_scatter_add_p):
    batching_rules.define(_prim, _make_window_rule(_prim))
batching_rules.define(prims.reduce_window_p, reduce_window_batching)
