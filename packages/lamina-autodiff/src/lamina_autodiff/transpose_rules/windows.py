"""Transpose rules of linear window primitives: a window sum transposes to a window sum, a gather to a scatter."""
from __future__ import annotations

import numpy as np
from lamina_ir import prims
from lamina_ir.prims import dilated_length, highest, lowest
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, stack_windows, typeof

from .._engine.rule_tables import transpose_rules

__all__: list[str] = []


def reduce_window_sum_transpose(ct, x, *, base_dilation, padding, window_dilation, window_dimensions, window_strides):
    """Sum for input i the cotangents of the windows p with `p * stride + k * gap = low + i * dilation` for some k.

    This is a window sum over the cotangent dilated by stride, with the same window, moving by dilation.
    """
    aval = x.aval
    if 0 in aval.shape or 0 in typeof(ct).shape:
        return lax.full(aval.shape, 0, aval.dtype)
    config = []
    for i, p, k, (low, _), dilation, gap, stride in zip(aval.shape, typeof(ct).shape, window_dimensions, padding,
                                                        base_dilation, window_dilation, window_strides, strict=True):
        extent = dilated_length(k, gap)
        before = extent - 1 - low
        after = dilated_length(i, dilation) + extent - 1 - before - dilated_length(p, stride)
        config.append((before, after, stride - 1))
    ct = lax.pad(ct, scalar(0, aval.dtype), config)
    ones = (1,) * len(config)
    return bind(prims.reduce_window_sum_p, ct, base_dilation=ones, padding=((0, 0),) * len(config),
                window_dilation=window_dilation, window_dimensions=window_dimensions, window_strides=base_dilation)


def select_and_gather_add_transpose(ct, t, x, *, base_dilation, padding, select, window_dilation, window_dimensions,
                                    window_strides):
    """Scatter the cotangents to the positions from which the tangents were gathered."""
    remaining = [dilated_length(n, b) + min(low, 0) + min(high, 0)
                 for n, b, (low, high) in zip(typeof(x).shape, base_dilation, padding, strict=True)]
    if 0 in typeof(ct).shape or any(n <= 0 for n in remaining):  # windows contain only padding
        return lax.full(typeof(x).shape, 0, typeof(ct).dtype), None
    dtype = typeof(x).dtype
    worst = scalar((lowest if select == "ge" else highest)(dtype), dtype)
    # `select_and_scatter` of StableHLO has no dilations.
    if any(g != 1 for g in (*window_dilation, *base_dilation)):
        return _scatter_by_mask(ct, x, worst, select, base_dilation, padding, window_dilation, window_dimensions,
                                window_strides), None
    # Nor has it negative padding: crop the operand first, and put zeros back in `_unpad`.
    config = [(min(low, 0), min(high, 0), 0) for low, high in padding]
    positive = tuple((max(low, 0), max(high, 0)) for low, high in padding)
    out = bind(prims.select_and_scatter_add_p, ct, lax.pad(x, worst, config), padding=positive, select=select,
               window_dimensions=window_dimensions, window_strides=window_strides)
    return _unpad(out, config, typeof(x).shape), None


def _unpad(ct, config, shape):
    """Transpose `lax.pad(x, ..., config)` for an `x` of this shape."""
    config_back = [(-low, -high, 0) for low, high, _ in config]
    ct = lax.pad(ct, scalar(0, typeof(ct).dtype), config_back)
    return lax.slice(ct, (0,) * len(shape), typeof(ct).shape, [gap + 1 for _, _, gap in config])


def _scatter_by_mask(ct, x, worst, select, base_dilation, padding, window_dilation, window_dimensions, window_strides):
    """Scatter with one term per window element: the cotangents of the windows that selected it, padded to its position.

    Used for dilated windows or inputs, which XLA's select-and-scatter does not support. In a window with at least one
    element, padding is never selected, even if all elements are as small (or large) as possible.
    """
    params = dict(base_dilation=base_dilation, padding=padding, window_dilation=window_dilation,
                  window_dimensions=window_dimensions, window_strides=window_strides)
    stacked = stack_windows(x, worst, **params)
    inside = stack_windows(lax.full(typeof(x).shape, True), False, **params)
    which = lax.select(lax.reduce_or(lax.ne(stacked, worst), (0,)),
                       (lax.argmax if select == "ge" else lax.argmin)(stacked, 0, "int32"), lax.argmax(inside, 0, "int32"))
    zero, shape = scalar(0, typeof(ct).dtype), typeof(x).shape
    config = [(low, high, b - 1) for (low, high), b in zip(padding, base_dilation, strict=True)]
    wide = [dilated_length(n, b) + low + high for n, (low, high), b in zip(shape, padding, base_dilation, strict=True)]
    total = None
    # Element `at` of window p is at p * stride + at * dilation. So the cotangents of windows that selected it are
    # dilated by stride and padded to that position.
    for number, at in enumerate(np.ndindex(*window_dimensions)):
        term = lax.select(lax.eq(which, np.int32(number)), ct, zero)
        firsts = [k * g for k, g in zip(at, window_dilation, strict=True)]
        term = lax.pad(term, zero, [(f, w - f - dilated_length(c, s), s - 1) for f, w, c, s in zip(
            firsts, wide, typeof(ct).shape, window_strides, strict=True)])
        total = term if total is None else lax.add(total, term)
    return _unpad(total, config, shape)


def select_and_scatter_add_transpose(ct, source, x, *, padding, select, window_dimensions, window_strides):
    ones = (1,) * len(window_dimensions)
    return bind(prims.select_and_gather_add_p, ct, x, base_dilation=ones, padding=padding, select=select,
                window_dilation=ones, window_dimensions=window_dimensions, window_strides=window_strides), None


transpose_rules.define(prims.reduce_window_sum_p, reduce_window_sum_transpose)
transpose_rules.define(prims.select_and_gather_add_p, select_and_gather_add_transpose)
transpose_rules.define(prims.select_and_scatter_add_p, select_and_scatter_add_transpose)
transpose_rules.declare_missing(prims.reduce_window_p, "its computation is opaque")
