"""Batching rule of the convolution: the batch axis is merged into an existing axis, or becomes groups.

If only `lhs` is batched, it is merged into the batch dimension of the convolution. If only `rhs` is batched, it is
merged into the output features of each group. If both are, each example becomes a separate group.
"""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ..extend import move_axis
from ..tables import batching_rules

__all__: list[str] = []


def _join(x, d, axis, outer=1):
    """Merge the batch axis `d` into `axis` (counted without it), inside each of its `outer` groups."""
    x = move_axis(x, d, axis)
    shape = typeof(x).shape
    size, n = shape[axis:axis + 2]
    rest = shape[axis + 2:]
    if outer > 1:
        # Groups are the slowest factor of a grouped axis, so the batch goes between groups and their elements.
        x = lax.reshape(x, (*shape[:axis], size, outer, n // outer, *rest))
        order = list(range(len(shape) + 1))
        order[axis:axis + 2] = axis + 1, axis
        x = lax.transpose(x, tuple(order))
    return lax.reshape(x, (*shape[:axis], size * n, *rest))


def _separate(x, axis, size, outer=1):
    """Split the batch axis off `axis` of a result; the inverse of `_join`. Returns (result, batch axis)."""
    shape = typeof(x).shape
    inner = shape[axis] // (outer * size)
    if outer == 1:
        return lax.reshape(x, (*shape[:axis], size, inner, *shape[axis + 1:])), axis
    x = lax.reshape(x, (*shape[:axis], outer, size, inner, *shape[axis + 1:]))
    order = list(range(len(shape) + 2))
    order[axis:axis + 2] = axis + 1, axis
    x = lax.transpose(x, tuple(order))
    return lax.reshape(x, (*shape[:axis], size, outer * inner, *shape[axis + 1:])), axis


def conv_general_dilated_batching(axis, args, dims, *, batch_group_count, dimension_numbers, feature_group_count,
                                  **params):
    (lhs, rhs), (l, r), size = args, dims, axis.size
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    features, batches = feature_group_count, batch_group_count
    # Existing groups stay the outer factor of the merged axis (`outer`). If both operands are batched, examples become
    # batch groups if there are batch groups already, else feature groups: a convolution cannot have both kinds.
    groups = features * batches
    if not size:  # no examples: the shape of the result follows from the type rule
        return _empty_result(args, dims, batch_group_count=batches, dimension_numbers=dimension_numbers,
                             feature_group_count=features, **params), 0
    # Examples are independent convolutions with one kernel: more elements of the convolution's own batch.
    if r is None:
        lhs, out_axis, outer = _join(lhs, l, lhs_spec[0], batches), out_spec[0], 1
    # More kernels on one input: more output features, inside each group.
    elif l is None:
        rhs, out_axis, outer = _join(rhs, r, rhs_spec[0], groups), out_spec[1], groups
    elif batches > 1:
        lhs, rhs, out_axis, outer = _join(lhs, l, lhs_spec[0]), _join(rhs, r, rhs_spec[0]), out_spec[1], 1
        batches *= size
    else:
        lhs, rhs, out_axis, outer = _join(lhs, l, lhs_spec[1]), _join(rhs, r, rhs_spec[0]), out_spec[1], 1
        features *= size
    out = bind(prims.conv_general_dilated_p, lhs, rhs, batch_group_count=batches, dimension_numbers=dimension_numbers,
               feature_group_count=features, **params)
    return _separate(out, out_axis, size, outer)


def _empty_result(args, dims, **params):
    one = [typeof(x) if d is None else typeof(lax.full(typeof(x).shape[:d] + typeof(x).shape[d + 1:], 0,
                                                       typeof(x).dtype)) for x, d in zip(args, dims, strict=True)]
    out = prims.conv_general_dilated_p.infer(*one, **params)
    return lax.full((0, *out.shape), 0, out.dtype)


batching_rules.define(prims.conv_general_dilated_p, conv_general_dilated_batching)
