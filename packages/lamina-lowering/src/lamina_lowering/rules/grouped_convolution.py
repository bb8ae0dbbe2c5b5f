"""Lowering of convolutions in groups for CPUs, where XLA runs a scalar loop for them.

Three forms replace it. `x` is the padded and dilated input, `w` are the kernels, `g` is a group, and one spatial axis
stands for all.

1. Few products per element of the result (depthwise convolution, and its gradient in the input):
   `y[n, g, o, p] = sum over i, k of x[n, g, i, p * stride + k * gap] * w[g, o, i, k]` is a sum of shifted products, in one
   vectorized loop over the result.
2. Few elements per group (depthwise convolution's gradient in the kernel, a convolution in groups of the batch):
   `y[g, o, p] = sum over i, k of x[g, i, p * stride + k * gap] * w[g, o, i, k]` is a product and a sum for each position p.
3. Few groups: one convolution for each group, which XLA calls from a library.

The padding is multiplied as in the common form, so infinite kernels give NaN at the same places. Other convolutions are
lowered by the common rule.
"""
from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from lamina_ir import dtypes, prims, shaped
from lamina_ir.prims import dilated_length

from .._emit.rule_tables import platform_rules
from .convolution import conv_general_dilated_lowering

__all__: list[str] = []

_TERMS = 49  # most products that are written out; a kernel of 7 x 7
_GROUPS = 16  # most convolutions of single groups

def conv_general_dilated_cpu(ctx, lhs, rhs, **params):
    emit = _choose(ctx, **params)
    return (emit or conv_general_dilated_lowering)(ctx, lhs, rhs, **params)


def _choose(ctx, *, batch_group_count, dimension_numbers, feature_group_count, **_):
    """Return the function that emits a convolution in groups, or None for the common rule."""
    (la, ra), out = ctx.avals_in, ctx.aval_out
    groups = batch_group_count * feature_group_count
    if groups == 1 or not ctx.is_unpartitioned or dtypes.is_complex(out.dtype) or not (la.size and ra.size and out.size):
        return None
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    window = prod(ra.shape[a] for a in rhs_spec[1:])
    if feature_group_count > 1 and window <= _TERMS:
        return _sum_shifted_products
    positions = prod(out.shape[a] for a in out_spec[2:])
    if la.shape[lhs_spec[0]] == batch_group_count and positions <= _TERMS:
        return _sum_per_position
    return _convolve_each_group if groups <= _GROUPS else None


def _wide(dtype):
    """Return the dtype of sums: float32 for narrower floats."""
    return np.dtype("float32") if dtypes.is_float(dtype) and dtype.itemsize < 4 else dtype


def _convert(ctx, v, aval, *dtypes):
    for dtype in dtypes:
        v, aval = ctx.convert(v, aval, shaped(aval.shape, dtype)), shaped(aval.shape, dtype)
    return v, aval


def _transpose(ctx, v, aval, order):
    out = shaped(tuple([aval.shape[a] for a in order]), aval.dtype)
    if list(order) == list(range(len(order))):
        return v, out
    return ctx.op("stablehlo.transpose", (v,), out, permutation=ctx.i64s(order)), out


def _slice(ctx, v, aval, first, count, strides):
    """Return `count` elements per axis from `first` on, in steps of `strides`."""
    out = shaped(tuple(count), aval.dtype)
    limit = [f + (n - 1) * s + 1 for f, n, s in zip(first, count, strides, strict=True)]
    if out.shape == aval.shape:
        return v, out
    return ctx.op("stablehlo.slice", (v,), out, start_indices=ctx.i64s(first), limit_indices=ctx.i64s(limit),
                  strides=ctx.i64s(strides)), out


def _pad(ctx, x, aval, spec, padding, dilation):
    """Dilate and pad the spatial axes with zeros."""
    low, high, interior = ([0] * len(spec) for _ in range(3))
    for a, (before, after), d in zip(spec[2:], padding, dilation, strict=True):
        low[a], high[a], interior[a] = before, after, d - 1
    if not any((*low, *high, *interior)):
        return x, aval
    shape = tuple([dilated_length(n, i + 1) + b + c for n, b, c, i in zip(aval.shape, low, high, interior, strict=True)])
    return ctx.pad(x, ctx.const(0, shaped((), aval.dtype)), aval, low, high, interior), shaped(shape, aval.dtype)


def _split_axis(shape, axis, groups):
    return (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1:])


# --- shifted products ---------------------------------------------------------------------------------------------
def _sum_shifted_products(ctx, lhs, rhs, *, dimension_numbers, feature_group_count, lhs_dilation, padding, rhs_dilation,
                          window_strides, **_):
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    (la, ra), out = ctx.avals_in, ctx.aval_out
    groups, ndim, wide = feature_group_count, len(lhs_spec), _wide(out.dtype)
    x, xa = _convert(ctx, lhs, la, out.dtype, wide)
    w, wa = _convert(ctx, rhs, ra, out.dtype, wide)
    x, xa = _pad(ctx, x, xa, lhs_spec, padding, lhs_dilation)
    w, wa = _transpose(ctx, w, wa, (*rhs_spec[1:], rhs_spec[0]))  # input feature, window, output feature
    inputs, outputs, window = wa.shape[0], wa.shape[-1] // groups, wa.shape[1:-1]
    # The result has the order of the axes of lhs, in which each group's features are an axis after that of groups.
    f = lhs_spec[1]
    counts = [0] * ndim
    for a, b in zip(lhs_spec, out_spec, strict=True):
        counts[a] = out.shape[b]
    counts[f] = groups
    result = shaped((*counts[:f + 1], outputs, *counts[f + 1:]), wide)
    strides = [1] * ndim
    for a, s in zip(lhs_spec[2:], window_strides, strict=True):
        strides[a] = s
    strides[f] = inputs
    x_dims = [a + (a > f) for a in range(ndim)]
    total = None
    for at in product(*map(range, (inputs, *window))):
        first = [0] * ndim
        first[f] = at[0]
        for a, k, d in zip(lhs_spec[2:], at[1:], rhs_dilation, strict=True):
            first[a] = k * d
        part, pa = _slice(ctx, x, xa, first, counts, strides)
        part = ctx.op("stablehlo.broadcast_in_dim", (part,), result, broadcast_dimensions=ctx.i64s(x_dims))
        factor, _ = _slice(ctx, w, wa, (*at, 0), (*(1,) * len(at), wa.shape[-1]), (1,) * (len(at) + 1))
        factor = ctx.reshape(factor, shaped((groups, outputs), wide))
        factor = ctx.op("stablehlo.broadcast_in_dim", (factor,), result, broadcast_dimensions=ctx.i64s((f, f + 1)))
        term = ctx.op("stablehlo.multiply", (part, factor), result)
        total = term if total is None else ctx.op("stablehlo.add", (total, term), result)
    merged = list(counts)
    merged[f] = groups * outputs
    total = ctx.reshape(total, shaped(tuple(merged), wide))
    order = [0] * ndim
    for a, b in zip(lhs_spec, out_spec, strict=True):
        order[b] = a
    total, ta = _transpose(ctx, total, shaped(tuple(merged), wide), order)
    return ctx.convert(total, ta, out)


# --- one sum per position -----------------------------------------------------------------------------------------
def _sum_per_position(ctx, lhs, rhs, *, batch_group_count, dimension_numbers, lhs_dilation, padding, rhs_dilation,
                      window_strides, **_):
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    (la, ra), out = ctx.avals_in, ctx.aval_out
    groups, ndim, wide = batch_group_count, len(lhs_spec), _wide(out.dtype)
    x, xa = _convert(ctx, lhs, la, out.dtype, wide)
    w, wa = _convert(ctx, rhs, ra, out.dtype, wide)
    x, xa = _pad(ctx, x, xa, lhs_spec, padding, lhs_dilation)
    order = [0] * ndim  # axis of rhs for each axis of lhs
    for a, b in zip(lhs_spec, rhs_spec, strict=True):
        order[a] = b
    w, wa = _transpose(ctx, w, wa, order)
    g = lhs_spec[0]
    outputs = wa.shape[g] // groups
    full = shaped(_split_axis(wa.shape, g, groups), wide)
    w = ctx.reshape(w, full)
    counts = [*wa.shape[:g], groups, *wa.shape[g + 1:]]
    strides = [1] * ndim
    for a, d in zip(lhs_spec[2:], rhs_dilation, strict=True):
        strides[a] = d
    summed, zero = shaped((groups, outputs), wide), ctx.const(0, shaped((), wide))
    positions, sums = [out.shape[a] for a in out_spec[2:]], []
    for at in product(*map(range, positions)):
        first = [0] * ndim
        for a, p, s in zip(lhs_spec[2:], at, window_strides, strict=True):
            first[a] = p * s
        part, _ = _slice(ctx, x, xa, first, counts, strides)
        part = ctx.op("stablehlo.broadcast_in_dim", (part,), full,
                      broadcast_dimensions=ctx.i64s([a + (a > g) for a in range(ndim)]))
        term = ctx.op("stablehlo.multiply", (part, w), full)
        made = ctx.op("stablehlo.reduce", (term, zero), summed, regions=[ctx.reducer_region("stablehlo.add", summed)],
                      dimensions=ctx.i64s([a for a in range(ndim + 1) if a not in (g, g + 1)]))
        sums.append(ctx.reshape(made, shaped((1, groups * outputs), wide)))
    made, ma = sums[0], shaped((len(sums), groups * outputs), wide)
    if len(sums) > 1:
        made = ctx.op("stablehlo.concatenate", sums, ma, dimension=0)
    shape = (1, *positions, groups * outputs)  # batch, positions, output features
    made = ctx.reshape(made, shaped(shape, wide))
    order = [0] * ndim
    for k, a in enumerate(out_spec):
        order[a] = (0, ndim - 1, *range(1, ndim - 1))[k]
    made, ma = _transpose(ctx, made, shaped(shape, wide), order)
    return ctx.convert(made, ma, out)


# --- one convolution per group ------------------------------------------------------------------------------------
def _convolve_each_group(ctx, lhs, rhs, *, batch_group_count, dimension_numbers, feature_group_count, **params):
    from .convolution import emit_convolution
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    (la, ra), out = ctx.avals_in, ctx.aval_out
    groups = batch_group_count * feature_group_count
    axis = lhs_spec[0 if batch_group_count > 1 else 1]
    made = []
    part = _divide(out, out_spec[1], groups)
    for n in range(groups):
        x, xa = _take_group(ctx, lhs, la, axis, groups, n)
        w, wa = _take_group(ctx, rhs, ra, rhs_spec[0], groups, n)
        made.append(emit_convolution(ctx, x, w, xa, wa, part, batch_group_count=1, feature_group_count=1,
                                     dimension_numbers=dimension_numbers, **params))
    return ctx.op("stablehlo.concatenate", made, out, dimension=out_spec[1])


def _divide(aval, axis, groups):
    return shaped((*aval.shape[:axis], aval.shape[axis] // groups, *aval.shape[axis + 1:]), aval.dtype)


def _take_group(ctx, v, aval, axis, groups, n):
    part = _divide(aval, axis, groups)
    first = [0] * len(aval.shape)
    first[axis] = n * part.shape[axis]
    return _slice(ctx, v, aval, first, part.shape, [1] * len(first))


platform_rules("cpu").define(prims.conv_general_dilated_p, conv_general_dilated_cpu)
