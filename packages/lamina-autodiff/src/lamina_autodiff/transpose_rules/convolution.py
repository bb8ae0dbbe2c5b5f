"""Transpose rule of the convolution: again a convolution, with the roles of strides and dilations exchanged.

On one spatial axis, kernel index k and input index i contribute to output index p if
`p * stride + k * gap = low + i * dilation`, where gap is the dilation of the kernel and dilation that of the input.

Transpose in the input: with the kernel reversed, `k' = K - 1 - k`, the condition is
`i * dilation + k' * gap = low' + p * stride` with `low' = (K - 1) * gap - low`. So the cotangent is dilated by stride,
and windows move by dilation.

Transpose in the kernel: `k * gap + p * stride = low + i * dilation`. So windows move by gap, and the cotangent is the
kernel, with dilation stride.

In both cases the high padding follows from the length of the result. The three convolutions each sum over one of batch,
input features and output features; the dimension numbers are permuted accordingly.
"""
from __future__ import annotations

from lamina_ir import prims
from lamina_ir.prims import ConvDimensionNumbers, dilated_length
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from .._engine.linearize import is_linear
from .._engine.rule_tables import transpose_rules

__all__: list[str] = []


def _split(x, axis, groups):
    """Split `axis` into two axes, groups first."""
    shape = typeof(x).shape
    return lax.reshape(x, (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1:]))


def _merge_groups(x, groups_axis, axis):
    """Move the axis of groups in front of `axis` (counted without it) and merge the two."""
    order = [a for a in range(len(typeof(x).shape)) if a != groups_axis]
    order.insert(axis, groups_axis)
    x = lax.transpose(x, tuple(order))
    shape = typeof(x).shape
    return lax.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2:]))


def _cast(x, dtype):
    return x if typeof(x).dtype == dtype else lax.convert_element_type(x, dtype)


def _transpose_lhs(ct, lhs, rhs, groups, batch_groups, numbers, lhs_dilation, padding, rhs_dilation, strides,
                   precision):
    lhs_spec, rhs_spec, out_spec = numbers
    shape, window = lhs.shape, typeof(rhs).shape
    n = groups * batch_groups
    # k' = K - 1 - k, see the module docstring.
    rhs = lax.rev(rhs, rhs_spec[2:])
    if n > 1:  # kernels of each group: (groups, outputs, inputs) become (outputs, groups * inputs)
        out_axis, in_axis = rhs_spec[:2]
        rhs = _merge_groups(_split(rhs, out_axis, n), out_axis, in_axis)
    pads = []
    for i, p, k, (low, _), dilation, gap, stride in zip(
            [shape[a] for a in lhs_spec[2:]], [typeof(ct).shape[a] for a in out_spec[2:]],
            [window[a] for a in rhs_spec[2:]], padding, lhs_dilation, rhs_dilation, strides, strict=True):
        extent = dilated_length(k, gap)
        # low' = (K - 1) gap - low; `extent` is (K - 1) gap + 1. The high padding follows from the length of the input,
        # (i - 1) dilation + 1 = before + high + (p - 1) stride + 1 - (extent - 1).
        before = max(extent - 1, 0) - low
        pads.append((before, dilated_length(i, dilation) + extent - 1 - before - dilated_length(p, stride)))
    # Features swap roles: the transpose sums over output features and yields input features.
    swapped = ConvDimensionNumbers(out_spec, (rhs_spec[1], rhs_spec[0], *rhs_spec[2:]), lhs_spec)
    out = bind(prims.conv_general_dilated_p, ct, rhs, batch_group_count=1, dimension_numbers=swapped,
               feature_group_count=n, lhs_dilation=strides, padding=tuple(pads), precision=precision,
               preferred_element_type=None, rhs_dilation=rhs_dilation, window_strides=lhs_dilation)
    if batch_groups > 1:
        batch, features = lhs_spec[:2]
        out = _merge_groups(_split(out, features, batch_groups), features, batch)
    return out


def _transpose_rhs(ct, lhs, rhs, groups, batch_groups, numbers, lhs_dilation, padding, rhs_dilation, strides,
                   precision):
    lhs_spec, rhs_spec, out_spec = numbers
    shape, window = typeof(lhs).shape, rhs.shape
    pads = []
    for i, p, k, (low, _), dilation, gap, stride in zip(
            [shape[a] for a in lhs_spec[2:]], [typeof(ct).shape[a] for a in out_spec[2:]],
            [window[a] for a in rhs_spec[2:]], padding, lhs_dilation, rhs_dilation, strides, strict=True):
        pads.append((low, dilated_length(k, gap) + dilated_length(p, stride) - 1 - low - dilated_length(i, dilation)))
    # The sum is over the batch: it takes the place of the input features in both operands. Groups of features and of
    # batches exchange roles with it.
    permuted = ConvDimensionNumbers((lhs_spec[1], lhs_spec[0], *lhs_spec[2:]), (out_spec[1], out_spec[0], *out_spec[2:]),
                                    (rhs_spec[1], rhs_spec[0], *rhs_spec[2:]))
    return bind(prims.conv_general_dilated_p, lhs, ct, batch_group_count=groups, dimension_numbers=permuted,
                feature_group_count=batch_groups, lhs_dilation=lhs_dilation, padding=tuple(pads), precision=precision,
                preferred_element_type=None, rhs_dilation=strides, window_strides=rhs_dilation)


def conv_general_dilated_transpose(ct, lhs, rhs, *, batch_group_count, dimension_numbers, feature_group_count,
                                   lhs_dilation, padding, precision, preferred_element_type, rhs_dilation,
                                   window_strides):
    linear, other, rule = (lhs, rhs, _transpose_lhs) if is_linear(lhs) else (rhs, lhs, _transpose_rhs)
    aval = linear.aval
    # The window arithmetic below assumes at least one element.
    if 0 in typeof(ct).shape or 0 in aval.shape or 0 in typeof(other).shape:
        out = lax.full(aval.shape, 0, aval.dtype)
    else:
        if precision is not None:
            precision = (precision[1], precision[0]) if rule is _transpose_rhs else precision
        other = _cast(other, typeof(ct).dtype)
        operands = (ct, aval, other) if rule is _transpose_lhs else (ct, other, aval)
        out = _cast(rule(*operands, feature_group_count, batch_group_count, dimension_numbers, lhs_dilation, padding,
                         rhs_dilation, window_strides, precision), aval.dtype)
    return (out, None) if rule is _transpose_lhs else (None, out)


transpose_rules.define(prims.conv_general_dilated_p, conv_general_dilated_transpose)
