"""Transpose rules of linear reductions: a sum broadcasts its cotangent, a cumulative sum reverses its direction."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing.extend import bind

from .._engine.rule_tables import transpose_rules

__all__: list[str] = []


def reduce_sum_transpose(ct, x, *, axes):
    shape = x.aval.shape
    remaining = tuple([a for a in range(len(shape)) if a not in axes])
    return bind(prims.broadcast_in_dim_p, ct, shape=shape, broadcast_dimensions=remaining)


def cumsum_transpose(ct, x, *, axis, reverse):
    return bind(prims.cumsum_p, ct, axis=axis, reverse=not reverse)


transpose_rules.define(prims.reduce_sum_p, reduce_sum_transpose)
transpose_rules.define(prims.cumsum_p, cumsum_transpose)
transpose_rules.declare_missing(prims.reduce_p, "its computation is opaque")
