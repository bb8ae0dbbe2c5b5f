"""Lowering of convolutions in groups for CPUs, where XLA runs scalar loops for them, and of some others.

Six forms replace the common one. Below, x is the padded and dilated input, w are the kernels, g is a group, m one of
its output features, and i one of its input features. One spatial axis represents all.

1. Few products per element of the result. This covers depthwise convolutions, and their gradients in the input:
   `y[n, g, m, p] = sum over i, k of x[n, g, i, p * stride + k * gap] * w[g, m, i, k]`. The sum is written out, so one
   vectorized loop over the result computes it.
2. Groups of the batch with few elements each, and few positions p. This covers the gradient of a depthwise convolution
   in its kernels: `y[g, m, p] = sum over i, k of x[g, i, p * stride + k * gap] * w[g, m, i, k]`, where the window is as
   large as an image. A loop over the rows of the window adds products to partial sums. Up to four elements of a group,
   as in gradients of convolutions in groups of up to four features, have one such loop each.
3. Other groups of floats: a loop over the groups, with one convolution from XLA's library for each.
4. Convolutions along three axes, or of dilated inputs, with more elements in the window than positions. This covers
   gradients in the kernels of volumes and of transposed convolutions: a loop of matrix products, one per position. If
   XLA's library has the convolution, one of these two forms is used:
5. Along three axes: a convolution along two axes in the library. Positions along the third axis are examples, and
   elements of the window along it are features, of which XLA's library needs many to be fast.
6. Of dilated inputs: the library's convolution with the operands swapped, where no zeros between elements are copied.

Another convolution without groups gets axes in the library's order, as XLA does itself outside of loops. In a loop it
would run a scalar loop for all other orders, among them those of gradients, which takes much longer.
Groups of few products keep the common form, which compiles faster. The rows `operation_*` of the benchmarks compare
these forms with the common one of jax.

Padding is multiplied as in the common form, so infinite kernels give NaN at the same places. Other convolutions are
lowered by the common rule.
"""
from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from lamina_ir import dtypes, prims, shaped
from lamina_ir.prims import ConvDimensionNumbers, dilated_length
from lamina_ir.typing import Function, ParamValue

from ..._emit.emitted_arrays import Array, concatenate, invert, loop, multiply_index, split_index
from ..._emit.rule_context import Context
from ..._emit.rule_tables import platform_rules
from ..._typing import IrValue
from .convolution import conv_general_dilated_lowering, emit_convolution

__all__: list[str] = []

_WORK = 1 << 16  # fewest products for which the longer time to compile pays off
_TERMS = 49  # most products that are written out: a kernel of 7 x 7
_FEATURES = 32  # most products per group and kernel position that are written out
_INPUTS = 8  # fewest input features of a group for a convolution of its own
_KERNELS = 32  # most loops over positions along one axis
_AT_ONCE = 4, 5, 6, 7, 3, 2, 1  # products that are added to a partial sum at once, the best number first
_EACH, _FEW_INPUTS = 4, 16  # most elements in a group of the batch, and input features, for a loop over rows
_PARTIAL = 1 << 22  # most elements of partial sums


def conv_general_dilated_cpu(ctx: Context, lhs: IrValue, rhs: IrValue, **params: ParamValue) -> IrValue:
    emit = _choose(ctx, **params)
    if emit is None:
        return conv_general_dilated_lowering(ctx, lhs, rhs, **params)
    # Operands of two dtypes are converted to that of the result; sums of narrow floats are in float32.
    (la, ra), out = ctx.avals_in, ctx.aval_out
    x, w = (Array(ctx, v, a).convert(out.dtype) for v, a in ((lhs, la), (rhs, ra)))
    if emit is not _convolve_each_group and dtypes.is_float(out.dtype) and out.dtype.itemsize < 4:
        x, w = (v.convert(np.dtype("float32")) for v in (x, w))
    return emit(ctx, x, w, **params).convert(out.dtype).v


def _choose(ctx: Context, *, batch_group_count: int, dimension_numbers: ConvDimensionNumbers, feature_group_count: int,
            lhs_dilation: tuple[int, ...], **_: ParamValue) -> Function | None:
    """Return the function that emits a convolution; None for the common rule."""
    (la, ra), out = ctx.avals_in, ctx.aval_out
    groups = batch_group_count * feature_group_count
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    # XLA must not split it, and can compute empty sums and complex numbers.
    if len(lhs_spec) == 2 or not ctx.is_unpartitioned or dtypes.is_complex(out.dtype) or not (
            la.size and ra.size and out.size):
        return None
    inputs, *window = [ra.shape[a] for a in rhs_spec[1:]]
    outputs = ra.shape[rhs_spec[0]] // groups
    # XLA computes groups of the batch as if each output had the inputs of all groups.
    is_small = out.size * inputs * prod(window) * batch_group_count < _WORK
    if groups > 1 and is_small:
        return None
    if feature_group_count > 1 and inputs * prod(window) <= _TERMS and inputs * outputs <= _FEATURES:
        return _sum_shifted_products
    each = la.shape[lhs_spec[0]] // batch_group_count
    is_vectorized = lhs_spec[0] == len(lhs_spec) - 1 and inputs <= _FEW_INPUTS
    if batch_group_count > 1 and each <= (_EACH if is_vectorized else 2):
        positions = [out.shape[a] for a in out_spec[2:]]
        axis = _longest(window)
        partial = groups * outputs * prod(positions) // positions[axis] * window[axis]
        if positions[axis] <= _KERNELS and partial <= _PARTIAL:
            return _sum_rows if each == 1 else _sum_rows_of_each
    # XLA's library has convolutions of float32 along up to three axes.
    is_in_library = len(window) <= 3 and dtypes.is_float(out.dtype) and out.dtype.itemsize <= 4
    is_dilated = any(d > 1 for d in lhs_dilation)
    if groups == 1 and not is_small and prod(window) > prod(out.shape[a] for a in out_spec[2:]) and (
            len(window) == 3 or is_dilated):
        if not is_in_library or (is_dilated and len(window) == 3):
            return _multiply_per_position
        return _swap_operands if is_dilated else _fold_axis
    # XLA's loop is as fast for groups of few input features.
    is_fast = batch_group_count > 1 or feature_group_count == 1 or inputs >= _INPUTS
    return _convolve_each_group if is_fast and is_in_library else None


def _longest(lengths: Sequence[int]) -> int:
    """Return the last of the longest axes."""
    return max(range(len(lengths)), key=lambda a: (lengths[a], a))


def _per_axis(axes: Sequence[int], values: Sequence[int], default: int) -> list[int]:
    """Return one number per axis of an array: `values` at `axes`, `default` at the two others."""
    made = [default] * (len(axes) + 2)
    for a, v in zip(axes, values, strict=True):
        made[a] = v
    return made


def _pad(x: Array, axes: Sequence[int], padding: Sequence[tuple[int, int]], dilation: Sequence[int]) -> Array:
    return x.pad(_per_axis(axes, [p[0] for p in padding], 0), _per_axis(axes, [p[1] for p in padding], 0),
                 _per_axis(axes, [d - 1 for d in dilation], 0))


# --- shifted products ---------------------------------------------------------------------------------------------
def _sum_shifted_products(ctx: Context, x: Array, w: Array, *, dimension_numbers: ConvDimensionNumbers,
                          feature_group_count: int, lhs_dilation: tuple[int, ...],
                          padding: tuple[tuple[int, int], ...], rhs_dilation: tuple[int, ...],
                          window_strides: tuple[int, ...], **_: ParamValue) -> Array:
    """Emit form 1. The result has the axes of x, with an axis of output features after that of groups."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    out, groups, f, space = ctx.aval_out, feature_group_count, lhs_spec[1], lhs_spec[2:]
    x = _pad(x, space, padding, lhs_dilation)
    w = w.transpose((*rhs_spec[1:], rhs_spec[0]))  # input feature, window, output feature
    outputs, terms = w.shape[-1] // groups, w.shape[:-1]
    counts = [out.shape[out_spec[k]] for k in invert(lhs_spec)]
    counts[f] = groups
    strides = _per_axis(space, window_strides, 1)
    strides[f] = terms[0]  # the input features of a group are adjacent
    # An axis of length 1 would take LLVM as long as the others to compile.
    own = (groups, outputs) if outputs > 1 else (groups,)
    shape, w_dims = (*counts[:f], *own, *counts[f + 1:]), range(f, f + len(own))
    x_dims = [a + (a > f) * (len(own) - 1) for a in range(len(counts))]
    total: Array | None = None
    for i, *at in product(*map(range, terms)):
        first = _per_axis(space, [k * d for k, d in zip(at, rhs_dilation, strict=True)], 0)
        first[f] = i
        part = x.slice(first, counts, strides).broadcast(shape, x_dims)
        factor = w.slice((i, *at, 0), (*[1] * len(terms), groups * outputs), [1] * (len(terms) + 1))
        term = part * factor.reshape(own).broadcast(shape, w_dims)
        total = term if total is None else total + term
    assert total is not None
    if dtypes.is_float(total.aval.dtype):  # a sum that starts at 0 is never -0, and XLA removes the addition of 0
        zero = Array.full(ctx, 0, shape, total.aval.dtype)
        total = zero.where(ctx.compare(total.v, zero.v, "EQ", total.aval), total)
    counts[f] = groups * outputs
    return total.reshape(counts).transpose([lhs_spec[k] for k in invert(out_spec)])


# --- sums over rows of the window -----------------------------------------------------------------------------------
def _sum_rows(ctx: Context, x: Array, w: Array, *, batch_group_count: int, dimension_numbers: ConvDimensionNumbers,
              lhs_dilation: tuple[int, ...], padding: tuple[tuple[int, int], ...], rhs_dilation: tuple[int, ...],
              window_strides: tuple[int, ...], **_: ParamValue) -> Array:
    """Emit form 2. All arrays have the axes of x; several output features are an axis after that of groups.

    Each pass of the loop reads one row of the window along its longest axis: `w[g, m, i, k]` for one input feature i
    and one position on the other axes. One partial sum per position on the longest axis has the positions on the other
    axes and the elements of the row as axes.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    out, groups, (g, i, *space) = ctx.aval_out, batch_group_count, lhs_spec
    x = _pad(x, space, padding, lhs_dilation)
    w = w.transpose([rhs_spec[k] for k in invert(lhs_spec)])
    outputs, along = w.shape[g] // groups, space[_longest([w.shape[a] for a in space])]
    positions = _per_axis(space, [out.shape[a] for a in out_spec[2:]], 1)
    strides, gaps = _per_axis(space, window_strides, 1), _per_axis(space, rhs_dilation, 1)
    # Adding several products at once reads and writes partial sums less often. Vectors along the last axis stay long.
    at_once = next(k for k in _AT_ONCE if w.shape[along] % k == 0 and (
        k == 1 or along < len(lhs_spec) - 1 or w.shape[along] // k % 8 == 0))
    length = w.shape[along] // at_once
    passes = [a for a in range(len(lhs_spec)) if a not in (g, along)]
    row = [length if a == along else n if a == g else 1 for a, n in enumerate(w.shape)]
    # The part of x that one row is multiplied with, and the steps in it.
    counts = [groups if a == g else length if a == along else positions[a] for a in range(len(lhs_spec))]
    steps = [gaps[a] if a == along else strides[a] for a in range(len(lhs_spec))]
    own = (groups, outputs) if outputs > 1 else (groups,)
    shape, shift = (*counts[:g], *own, *counts[g + 1:]), len(own) - 1
    dims, line = [a + (a > g) * shift for a in range(len(lhs_spec))], along + (along > g) * shift
    reads = [dilated_length(n, s) for n, s in zip(counts, steps, strict=True)]

    def body(ctx: Context, index: IrValue, *sums: Array) -> list[Array]:
        first = dict(zip(passes, split_index(ctx, index, [w.shape[a] for a in passes]), strict=True))
        scaled = {a: multiply_index(ctx, v, gaps[a]) for a, v in first.items()}
        factors = []
        for k in range(at_once):
            factor = w.read(ctx, [k * length if a == along else first.get(a, 0) for a in range(len(row))], row)
            factors.append(factor.reshape((*row[:g], *own, *row[g + 1:])).broadcast(shape, range(len(shape))))
        made = []
        for p, total in enumerate(sums):
            for k, factor in enumerate(factors):
                part = x.read(ctx, [p * strides[a] + k * length * gaps[a] if a == along else scaled.get(a, 0)
                                    for a in range(len(row))], reads)
                part = part.slice([0] * len(row), counts, steps).broadcast(shape, dims)
                total = total + part * factor
            made.append(total)
        return made

    start = [Array.full(ctx, 0, shape, x.aval.dtype)] * positions[along]
    sums = loop(ctx, prod(w.shape[a] for a in passes), start, body)
    counts = [groups * outputs if a == g else 1 if a == along else n for a, n in enumerate(counts)]
    made = concatenate([s.sum((line,)).reshape(counts) for s in sums], along)
    # The group axis holds the output features, that of input features (of length 1) is the batch.
    return made.transpose([(i, g, *space)[k] for k in invert(out_spec)])


def _sum_rows_of_each(ctx: Context, x: Array, w: Array, *, batch_group_count: int,
                      dimension_numbers: ConvDimensionNumbers, **params: ParamValue) -> Array:
    """Emit form 2 in a loop over the elements of a group, with a group of one element for each output feature."""
    n, o, out_n = (spec[0] for spec in dimension_numbers)
    each, outputs = x.shape[n] // batch_group_count, w.shape[o] // batch_group_count
    before, after, out = x.shape[:n], x.shape[n + 1:], shaped(ctx.aval_out.shape, x.aval.dtype)
    x, one = x.reshape((*before, batch_group_count, each, *after)), (*before, batch_group_count, 1, *after)

    def body(ctx: Context, index: IrValue, total: Array) -> list[Array]:
        part = x.read(ctx, [index if a == n + 1 else 0 for a in range(len(one))], one)
        part = part.broadcast((*before, batch_group_count, outputs, *after), range(len(one)))
        made = _sum_rows(ctx, part.reshape((*before, w.shape[o], *after)), w.within(ctx), batch_group_count=w.shape[o],
                         dimension_numbers=dimension_numbers, **params)
        return [total.write(made, [index if a == out_n else 0 for a in range(len(out.shape))])]

    made, = loop(ctx, each, [Array.full(ctx, ctx.module.initial_value(out), out.shape, out.dtype)], body)
    return made


# --- one matrix product per position --------------------------------------------------------------------------------
def _multiply_per_position(ctx: Context, x: Array, w: Array, *, dimension_numbers: ConvDimensionNumbers,
                           lhs_dilation: tuple[int, ...], padding: tuple[tuple[int, int], ...],
                           rhs_dilation: tuple[int, ...], window_strides: tuple[int, ...], **_: ParamValue) -> Array:
    """Emit form 4: each pass of a loop multiplies the part of x under the window at one position with the kernels."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    n, i, *space = lhs_spec
    x = _pad(x, space, padding, lhs_dilation)
    positions, gaps = [ctx.aval_out.shape[a] for a in out_spec[2:]], _per_axis(space, rhs_dilation, 1)
    counts = [w.shape[rhs_spec[k]] for k in invert(lhs_spec)]
    counts[n] = x.shape[n]
    # Two axes each: XLA merges contracted axes without a copy only outside of loops.
    w = w.transpose((*rhs_spec[1:], rhs_spec[0]))
    terms, outputs = prod(w.shape[:-1]), w.shape[-1]
    w = w.reshape((terms, outputs))
    whole = shaped((prod(positions), counts[n], outputs), x.aval.dtype)

    def body(ctx: Context, index: IrValue, total: Array) -> list[Array]:
        first: list[IrValue | int] = [0] * len(counts)
        for a, p, stride in zip(space, split_index(ctx, index, positions), window_strides, strict=True):
            first[a] = multiply_index(ctx, p, stride)
        part = x.read(ctx, first, [dilated_length(c, s) for c, s in zip(counts, gaps, strict=True)])
        part = part.slice([0] * len(counts), counts, gaps).transpose((i, *space, n)).reshape((terms, counts[n]))
        return [total.write(part.multiply_transposed(w).reshape((1, *whole.shape[1:])), (index, 0, 0))]

    start = Array.full(ctx, ctx.module.initial_value(whole), whole.shape, whole.dtype)
    made, = loop(ctx, whole.shape[0], [start], body)
    d = len(positions)
    return made.reshape((*positions, *whole.shape[1:])).transpose([(d, d + 1, *range(d))[k] for k in invert(out_spec)])


# --- one axis less ---------------------------------------------------------------------------------------------------
def _fold_axis(ctx: Context, x: Array, w: Array, *, dimension_numbers: ConvDimensionNumbers,
               lhs_dilation: tuple[int, ...], padding: tuple[tuple[int, int], ...], rhs_dilation: tuple[int, ...],
               window_strides: tuple[int, ...], **params: ParamValue) -> Array:
    """Emit form 5: positions along one axis become examples, and elements of the window along it become features."""
    (n, i, *space), (o, j, *across), out_spec = dimension_numbers
    lengths, positions = [w.shape[a] for a in across], [ctx.aval_out.shape[a] for a in out_spec[2:]]
    cut = min(range(len(space)), key=lambda a: (positions[a], -lengths[a]))
    kept = [a for a in range(len(space)) if a != cut]
    x = _pad(x, space, [p if a == cut else (0, 0) for a, p in enumerate(padding)],
             [d if a == cut else 1 for a, d in enumerate(lhs_dilation)])
    counts = _per_axis(space, [lengths[a] if a == cut else x.shape[b] for a, b in enumerate(space)], 0)
    counts[n], counts[i] = x.shape[n], x.shape[i]
    features = x.shape[i] * lengths[cut]
    gaps = _per_axis(space, [d if a == cut else 1 for a, d in enumerate(rhs_dilation)], 1)
    parts = []
    for p in range(positions[cut]):
        first = _per_axis(space, [p * window_strides[cut] if a == cut else 0 for a in range(len(space))], 0)
        part = x.slice(first, counts, gaps).transpose((n, *[space[a] for a in kept], i, space[cut]))
        parts.append(part.reshape((*part.shape[:-2], features)))
    x = concatenate(parts, 0)
    w = w.transpose((*[across[a] for a in kept], j, across[cut], o))
    w = w.reshape((*w.shape[:-3], features, w.shape[-1]))
    per_kept = {key: tuple(values[a] for a in kept) for key, values in (
        ("lhs_dilation", lhs_dilation), ("padding", padding), ("rhs_dilation", rhs_dilation),
        ("window_strides", window_strides))}
    numbers, d = _library_order(len(kept) + 2), len(kept)
    out = shaped((x.shape[0], *[positions[a] for a in kept], w.shape[-1]), x.aval.dtype)
    y = emit_convolution(ctx, x.v, w.v, x.aval, w.aval, out, dimension_numbers=numbers, **per_kept, **params)
    # The axes of the result: positions along the folded axis, examples, positions along the others, features
    made = Array(ctx, y, out).reshape((positions[cut], counts[n], *out.shape[1:]))
    order = [1, d + 2, *[0 if a == cut else 2 + kept.index(a) for a in range(len(space))]]
    return made.transpose([order[k] for k in invert(out_spec)])


def _library_order(ndim: int) -> ConvDimensionNumbers:
    """Return the order of axes that XLA's library needs: features last."""
    space = tuple(range(1, ndim - 1))
    return ConvDimensionNumbers((0, ndim - 1, *space), (ndim - 1, ndim - 2, *range(ndim - 2)), (0, ndim - 1, *space))


# --- operands swapped -------------------------------------------------------------------------------------------------
def _swap_operands(ctx: Context, x: Array, w: Array, *, dimension_numbers: ConvDimensionNumbers,
                   lhs_dilation: tuple[int, ...], padding: tuple[tuple[int, int], ...], rhs_dilation: tuple[int, ...],
                   window_strides: tuple[int, ...], **params: ParamValue) -> Array:
    """Emit form 6: a convolution of the kernels, in which x is the window. Its positions are in reverse order.

    `y[p] = sum over q of x[q] * w[k]`, where q and k are those with `stride * p + gap * k = dilation * q + low`.
    Other products with zeros are computed here than there, so numbers that are not finite may become NaN at other
    places. If a result is not finite, form 4 computes it again.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    paddings = []
    for a, b, c, dilation, (low, _), gap, stride in zip(lhs_spec[2:], rhs_spec[2:], out_spec[2:], lhs_dilation, padding,
                                                        rhs_dilation, window_strides, strict=True):
        last = stride * (ctx.aval_out.shape[c] - 1)
        extents = dilated_length(x.shape[a], dilation), dilated_length(w.shape[b], gap)
        paddings.append((last - low, extents[0] - extents[1] + low))
    numbers = ConvDimensionNumbers((rhs_spec[0], *rhs_spec[1:]), (lhs_spec[0], *lhs_spec[1:]),
                                   (out_spec[1], out_spec[0], *out_spec[2:]))
    made = _convolve_each_group(ctx, w, x, dimension_numbers=numbers, lhs_dilation=rhs_dilation,
                                padding=tuple(paddings), rhs_dilation=lhs_dilation, window_strides=window_strides,
                                **params).reverse(out_spec[2:])
    size = made.absolute().sum(range(len(made.shape)))
    is_finite = ctx.compare(size.v, ctx.const(np.inf, size.aval), "LT", size.aval)

    def again(ctx: Context) -> IrValue:
        return _multiply_per_position(
            ctx, x.within(ctx), w.within(ctx), dimension_numbers=dimension_numbers, lhs_dilation=lhs_dilation,
            padding=padding, rhs_dilation=rhs_dilation, window_strides=window_strides, **params).v

    y = ctx.op("stablehlo.if", (is_finite,), made.aval, regions=[ctx.region((), lambda _: made.v), ctx.region((), again)])
    return Array(ctx, y, made.aval)


# --- one convolution per group --------------------------------------------------------------------------------------
def _convolve_each_group(ctx: Context, x: Array, w: Array, *, batch_group_count: int,
                         dimension_numbers: ConvDimensionNumbers, feature_group_count: int,
                         **params: ParamValue) -> Array:
    """Emit form 3, with the axes in the order of XLA's library: XLA only changes the order outside of loops."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    groups, ndim, dtype = batch_group_count * feature_group_count, len(lhs_spec), x.aval.dtype
    x = x.transpose((lhs_spec[0], *lhs_spec[2:], lhs_spec[1]))
    w = w.transpose((*rhs_spec[2:], rhs_spec[1], rhs_spec[0]))
    order = (out_spec[0], *out_spec[2:], out_spec[1])  # axis of the result for each axis of y
    params.update(batch_group_count=1, dimension_numbers=_library_order(ndim), feature_group_count=1)
    axis = 0 if batch_group_count > 1 else ndim - 1  # of x, along which groups are adjacent
    xs, ws = ([n // groups if a == cut else n for a, n in enumerate(v.shape)] for v, cut in ((x, axis), (w, ndim - 1)))
    *ys, features = [ctx.aval_out.shape[a] for a in order]
    part, whole = shaped((*ys, features // groups), dtype), shaped((*ys, features), dtype)

    def body(ctx: Context, index: IrValue, total: Array) -> list[Array]:
        a, b = (v.read(ctx, [multiply_index(ctx, index, sizes[cut]) if k == cut else 0 for k in range(ndim)], sizes)
                for v, sizes, cut in ((x, xs, axis), (w, ws, ndim - 1)))
        y = Array(ctx, emit_convolution(ctx, a.v, b.v, a.aval, b.aval, part, **params), part)
        return [total.write(y, [*[0] * (ndim - 1), multiply_index(ctx, index, part.shape[-1])])]

    if groups == 1:
        made = Array(ctx, emit_convolution(ctx, x.v, w.v, x.aval, w.aval, whole, **params), whole)
    else:
        made, = loop(ctx, groups, [Array.full(ctx, ctx.module.initial_value(whole), whole.shape, dtype)], body)
    return made.transpose(invert(order))


platform_rules("cpu").define(prims.conv_general_dilated_p, conv_general_dilated_cpu)
