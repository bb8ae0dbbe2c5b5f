"""Batching rules of primitives that move elements: the batch axis stays in place or is moved first."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ..extend import materialise, move_axis
from ..tables import batching_rules

__all__: list[str] = []

batching_rules.declare_missing(prims.iota_p, "it has no operands, so nothing about it is ever batched")


def broadcast_in_dim_batching(axis, args, dims, *, shape, broadcast_dimensions):
    x = move_axis(args[0], dims[0], 0)
    return bind(prims.broadcast_in_dim_p, x, shape=(axis.size, *shape),
                broadcast_dimensions=(0, *[a + 1 for a in broadcast_dimensions])), 0


def reshape_batching(axis, args, dims, *, new_sizes, dimensions):
    x = move_axis(args[0], dims[0], 0)
    if dimensions is not None:
        dimensions = (0, *[a + 1 for a in dimensions])
    return bind(prims.reshape_p, x, new_sizes=(axis.size, *new_sizes), dimensions=dimensions), 0


def transpose_batching(axis, args, dims, *, permutation):
    d = dims[0]
    return lax.transpose(args[0], (d, *[a + (a >= d) for a in permutation])), 0


def squeeze_batching(axis, args, dims, *, dimensions):
    d = dims[0]
    axes = tuple([a + (a >= d) for a in dimensions])
    return bind(prims.squeeze_p, args[0], dimensions=axes), d - sum(a < d for a in axes)


def expand_dims_batching(axis, args, dims, *, dimensions):
    """Move the batch axis first: then the new axes, counted in the result, shift by one."""
    x = move_axis(args[0], dims[0], 0)
    return bind(prims.expand_dims_p, x, dimensions=tuple([a + 1 for a in dimensions])), 0


def concatenate_batching(axis, args, dims, *, dimension):
    d = next(d for d in dims if d is not None)
    # Unbatched operands are repeated, since all operands of a concatenation need the batch axis.
    xs = [materialise(x, k, axis.size, d) for x, k in zip(args, dims, strict=True)]
    return bind(prims.concatenate_p, *xs, dimension=dimension + (dimension >= d)), d


def pad_batching(axis, args, dims, *, padding_config):
    """With a batched padding value, pad with zeros and select the padding value of each example outside the operand."""
    (x, value), (d, value_dim) = args, dims
    if value_dim is None:
        config = (*padding_config[:d], (0, 0, 0), *padding_config[d:])
        return bind(prims.pad_p, x, value, padding_config=config), d
    x = materialise(x, d, axis.size)
    config = ((0, 0, 0), *padding_config)
    aval = typeof(x)
    # The mask is padded like the operand, so it also has the crops and gaps.
    inside = bind(prims.pad_p, lax.full(aval.shape, True, "bool"), False, padding_config=config)
    padded = bind(prims.pad_p, x, lax.full((), 0, aval.dtype), padding_config=config)
    fill = bind(prims.broadcast_in_dim_p, value, shape=typeof(padded).shape, broadcast_dimensions=(0,))
    return lax.select(inside, padded, fill), 0


def slice_batching(axis, args, dims, *, start_indices, limit_indices, strides):
    d = dims[0]
    if strides is not None:
        strides = (*strides[:d], 1, *strides[d:])
    return bind(prims.slice_p, args[0], start_indices=(*start_indices[:d], 0, *start_indices[d:]),
                limit_indices=(*limit_indices[:d], axis.size, *limit_indices[d:]), strides=strides), d


def rev_batching(axis, args, dims, *, dimensions):
    d = dims[0]
    return bind(prims.rev_p, args[0], dimensions=tuple([a + (a >= d) for a in dimensions])), d


batching_rules.define(prims.broadcast_in_dim_p, broadcast_in_dim_batching)
batching_rules.define(prims.reshape_p, reshape_batching)
batching_rules.define(prims.transpose_p, transpose_batching)
batching_rules.define(prims.squeeze_p, squeeze_batching)
batching_rules.define(prims.expand_dims_p, expand_dims_batching)
batching_rules.define(prims.concatenate_p, concatenate_batching)
batching_rules.define(prims.pad_p, pad_batching)
batching_rules.define(prims.slice_p, slice_batching)
batching_rules.define(prims.rev_p, rev_batching)
