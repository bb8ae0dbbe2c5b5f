"""Batching row of the convolution: the new axis joins the batch of `lhs`, the outputs of `rhs`, or makes groups.

Only `lhs` mapped: more examples. Only `rhs` mapped: more output features, inside each group. Both: each example becomes
a group of its own.
"""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ..extend import move_to
from ..tables import batching_rules

__all__: list[str] = []


def _join(x, d, axis, outer=1):
    """Mapped axis `d` merged into `axis` (as counted without it), inside `outer` groups of it."""
    x = move_to(x, d, axis)
    shape = typeof(x).shape
    size, n = shape[axis:axis + 2]
    rest = shape[axis + 2:]
    if outer > 1:
        x = lax.reshape(x, (*shape[:axis], size, outer, n // outer, *rest))
        order = list(range(len(shape) + 1))
        order[axis:axis + 2] = axis + 1, axis
        x = lax.transpose(x, tuple(order))
    return lax.reshape(x, (*shape[:axis], size * n, *rest))


def _part(x, axis, size, outer=1):
    """The mapped axis taken out of `axis` of a result again: the result, and where the mapped axis is."""
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
    # Only lhs: its batch joins the convolution's batch. Only rhs: the kernels are more output features. Both: each example is
    # a group of its own, of batches or of features. Groups that there are stay outside (`outer`).
    joined = features * batches
    if not size:  # nothing to join; what an example gives says the shape
        return _of_no_examples(args, dims, batch_group_count=batches, dimension_numbers=dimension_numbers,
                               feature_group_count=features, **params), 0
    if r is None:
        lhs, out_axis, outer = _join(lhs, l, lhs_spec[0], batches), out_spec[0], 1
    elif l is None:
        rhs, out_axis, outer = _join(rhs, r, rhs_spec[0], joined), out_spec[1], joined
    elif batches > 1:
        lhs, rhs, out_axis, outer = _join(lhs, l, lhs_spec[0]), _join(rhs, r, rhs_spec[0]), out_spec[1], 1
        batches *= size
    else:
        lhs, rhs, out_axis, outer = _join(lhs, l, lhs_spec[1]), _join(rhs, r, rhs_spec[0]), out_spec[1], 1
        features *= size
    out = bind(prims.conv_general_dilated_p, lhs, rhs, batch_group_count=batches, dimension_numbers=dimension_numbers,
               feature_group_count=features, **params)
    return _part(out, out_axis, size, outer)


def _of_no_examples(args, dims, **params):
    one = [typeof(x) if d is None else typeof(lax.full(typeof(x).shape[:d] + typeof(x).shape[d + 1:], 0,
                                                       typeof(x).dtype)) for x, d in zip(args, dims, strict=True)]
    out = prims.conv_general_dilated_p.infer(*one, **params)
    return lax.full((0, *out.shape), 0, out.dtype)


batching_rules.define(prims.conv_general_dilated_p, conv_general_dilated_batching)
