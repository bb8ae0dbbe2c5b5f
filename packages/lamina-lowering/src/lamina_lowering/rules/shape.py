"""Lowering of primitives that move elements: one StableHLO operation each, except pads of several axes on CPUs."""
from __future__ import annotations

from lamina_ir import prims, shaped

from .._emit.emitted_arrays import Array
from .._emit.rule_tables import lowering_rules, platform_rules

__all__: list[str] = []


def _as_reshape(ctx, x, **params):
    return ctx.reshape(x, ctx.aval_out)


def broadcast_in_dim_lowering(ctx, x, *, shape, broadcast_dimensions):
    return ctx.op("stablehlo.broadcast_in_dim", (x,), ctx.aval_out, broadcast_dimensions=ctx.i64s(broadcast_dimensions))


def reshape_lowering(ctx, x, *, new_sizes, dimensions):
    if dimensions is not None:
        a = ctx.aval_in
        moved = shaped(tuple(a.shape[i] for i in dimensions), a.dtype)
        x = ctx.op("stablehlo.transpose", (x,), moved, permutation=ctx.i64s(dimensions))
    return ctx.reshape(x, ctx.aval_out)


def transpose_lowering(ctx, x, *, permutation):
    return ctx.op("stablehlo.transpose", (x,), ctx.aval_out, permutation=ctx.i64s(permutation))


def concatenate_lowering(ctx, *xs, dimension):
    return ctx.op("stablehlo.concatenate", xs, ctx.aval_out, dimension=dimension)


def pad_lowering(ctx, x, value, *, padding_config):
    low, high, interior = ([c[i] for c in padding_config] for i in range(3))
    return ctx.pad(x, value, ctx.aval_in, low, high, interior)


def pad_lowering_cpu(ctx, x, value, *, padding_config):
    """Emit a pad of few axes, whose rows are long: XLA copies them in half of the time."""
    if not ctx.is_unpartitioned or not ctx.aval_in.shape or 0 in ctx.aval_in.shape:
        return pad_lowering(ctx, x, value, padding_config=padding_config)
    return Array(ctx, x, ctx.aval_in).pad_with(value, *zip(*padding_config, strict=True)).v


def slice_lowering(ctx, x, *, start_indices, limit_indices, strides):
    return ctx.op("stablehlo.slice", (x,), ctx.aval_out, start_indices=ctx.i64s(start_indices),
                  limit_indices=ctx.i64s(limit_indices), strides=ctx.i64s(strides or (1,) * len(start_indices)))


def rev_lowering(ctx, x, *, dimensions):
    return ctx.op("stablehlo.reverse", (x,), ctx.aval_out, dimensions=ctx.i64s(dimensions))


lowering_rules.define(prims.broadcast_in_dim_p, broadcast_in_dim_lowering)
lowering_rules.define(prims.reshape_p, reshape_lowering)
lowering_rules.define(prims.transpose_p, transpose_lowering)
lowering_rules.define(prims.squeeze_p, _as_reshape)
lowering_rules.define(prims.expand_dims_p, _as_reshape)
lowering_rules.define(prims.concatenate_p, concatenate_lowering)
lowering_rules.define(prims.pad_p, pad_lowering)
platform_rules("cpu").define(prims.pad_p, pad_lowering_cpu)
lowering_rules.define(prims.slice_p, slice_lowering)
lowering_rules.define(prims.rev_p, rev_lowering)
lowering_rules.define(prims.iota_p, lambda ctx, *, dimension, **_: ctx.iota(ctx.aval_out, dimension))
