"""Reductions of windows that slide over an array: pooling, running sums, and their parts."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index as _int

import numpy as np
from lamina_ir import ShapeError, dtypes, prims, trees
from lamina_ir.prims import dilated_length, window_count
from lamina_ir.typing import Params, Tree, Value

from .._diagnostics.argument_errors import rename_errors
from . import shape as sh
from ._util.operands import as_ints, bind, typeof
from ._util.reducers import stage_combination, combine_with_init
from .creation import full
from .._typing import Unchecked

__all__ = ["padtype_to_pads", "reduce_window", "reduce_window_shape_tuple"]

_SPECIAL = {prims.add_p: prims.reduce_window_sum_p, prims.mul_p: prims.reduce_window_prod_p,
            prims.max_p: prims.reduce_window_max_p, prims.min_p: prims.reduce_window_min_p}
Padding = str | Sequence[tuple[int, int]]


@rename_errors
def padtype_to_pads(in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int],
                    padding: Unchecked) -> list[tuple[int, int]]:
    """Return the padding pairs of a padding name.

    Args:
      in_shape: lengths of the (dilated) axes.
      window_shape: lengths of the (dilated) windows.
      window_strides: the distance between windows.
      padding: "SAME", "SAME_LOWER" or "VALID", in any case.

    >>> padtype_to_pads((10, 10), (3, 4), (1, 2), "SAME")
    [(1, 1), (1, 1)]
    """
    return pads_of_word(in_shape, window_shape, window_strides, padding)


def pads_of_word(in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int],
                 padding: Unchecked) -> list[tuple[int, int]]:
    """Return the same as `padtype_to_pads`, for use in other functions: errors start with the argument."""
    word = padding.upper() if isinstance(padding, str) else None
    if word == "VALID":
        return [(0, 0)] * len(in_shape)
    if word not in ("SAME", "SAME_LOWER"):
        raise ValueError(f"padding: expected 'SAME', 'SAME_LOWER' or 'VALID'; got {padding!r}")
    if any(s < 1 for s in window_strides):
        raise ValueError(f"padding: {padding!r} needs positive strides; got {tuple(window_strides)}")
    pads = []
    for n, k, s in zip(in_shape, window_shape, window_strides, strict=True):
        total = max((-(-n // s) - 1) * s + k - n, 0)
        small, large = total // 2, total - total // 2
        pads.append((small, large) if word == "SAME" else (large, small))
    return pads


def _parameters(call: str, shape: Sequence[int], window_dimensions: Unchecked, window_strides: Unchecked,
                padding: Unchecked, base_dilation: Unchecked, window_dilation: Unchecked) -> Params:
    ndim = len(shape)
    ones = (1,) * ndim
    window, strides, base, gaps = (ones if v is None else as_ints(call, name, v) for name, v in (
        ("window_dimensions", window_dimensions), ("window_strides", window_strides),
        ("base_dilation", base_dilation), ("window_dilation", window_dilation)))
    if isinstance(padding, str):
        if any(len(v) != ndim for v in (window, strides, base, gaps)):
            raise ShapeError(f"{call}: window_dimensions, window_strides, base_dilation and window_dilation need one "
                             f"entry for each axis of shape {tuple(shape)}; got {window}, {strides}, {base}, {gaps}")
        try:
            padding = pads_of_word(shape, [*map(dilated_length, window, gaps)], strides, padding)
        except ValueError as error:
            raise ValueError(f"{call}: {error}") from None
    try:
        pads = tuple([(_int(low), _int(high)) for low, high in padding])
    except (TypeError, ValueError):
        raise ValueError(f"{call}: padding must be 'SAME', 'SAME_LOWER', 'VALID' or a pair (low, high) per axis; got "
                         f"{padding!r}") from None
    return dict(base_dilation=base, padding=pads, window_dilation=gaps, window_dimensions=window,
                window_strides=strides)


@rename_errors
def reduce_window(operand: Tree, init_value: Tree, computation: Callable[[Tree, Tree], Tree],
                  window_dimensions: Sequence[int], window_strides: Sequence[int] | None, padding: Padding,
                  base_dilation: Sequence[int] | None = None, window_dilation: Sequence[int] | None = None) -> Tree:
    """Combine the elements of every window by an associative function of scalars.

    Sums, products, maxima and minima are recognized and recorded as separate primitives, which have derivatives.

    Args:
      operand: array `[...]`, or a tree of arrays of one shape.
      init_value: scalar, or tree like `operand` of scalars: the start value of each window, an identity of
        `computation`.
      computation: `computation(a, b)` combines two trees of scalars.
      window_dimensions: the window's length along each axis.
      window_strides: per axis, the distance between windows; None for 1.
      padding: per axis a pair `(low, high)`, negative to crop, or "SAME", "SAME_LOWER", "VALID" (counted without
        `base_dilation`). Positions in the padding are ignored.
      base_dilation: per axis, the dilation of the operand; None for 1.
      window_dilation: per axis, the dilation of the window; None for 1.
    Returns:
      Tree like `operand` with one element per window.

    Derivative: for sums linear; for extremes that of the first element that has the value; exact for products.
    Source: StableHLO `reduce_window`.

    >>> from lamina_tracing import lax
    >>> reduce_window(np.float32([1, 5, 2, 4]), -np.inf, lax.max, (2,), (2,), "VALID")
    Array([5., 4.], dtype=float32)
    """
    xs, starts, tree, program, op = stage_combination("reduce_window", operand, init_value, computation)
    aval = typeof(xs[0])
    params = _parameters("reduce_window", aval.shape, window_dimensions, window_strides, padding, base_dilation,
                         window_dilation)
    if op in _SPECIAL and not (op is not prims.add_p and dtypes.is_complex(aval.dtype)) \
            and not (dtypes.is_bool(aval.dtype) and op in (prims.add_p, prims.mul_p)):
        return trees.tree_unflatten(tree, [combine_with_init(op, bind(_SPECIAL[op], xs[0], **params), starts[0])])
    return trees.tree_unflatten(tree, list(bind(prims.reduce_window_p, *xs, *starts, computation=program, **params)))


@rename_errors
def reduce_window_shape_tuple(operand_shape: Sequence[int], window_dimensions: Sequence[int],
                              window_strides: Sequence[int], padding: Sequence[tuple[int, int]],
                              base_dilation: Sequence[int] | None = None,
                              window_dilation: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the number of windows along each axis.

    >>> reduce_window_shape_tuple((10, 7), (3, 2), (2, 1), ((0, 0), (1, 1)))
    (4, 8)
    """
    p = _parameters("reduce_window_shape_tuple", operand_shape, window_dimensions, window_strides, padding,
                    base_dilation, window_dilation)
    for name, value in p.items():
        if len(value) != len(operand_shape):
            raise ShapeError(f"reduce_window_shape_tuple: {name} needs one entry for each axis of shape "
                             f"{tuple(operand_shape)}; got {value}")
    return tuple(map(window_count, operand_shape, p["window_dimensions"], p["window_strides"], p["padding"],
                     p["base_dilation"], p["window_dilation"]))


def stack_windows(x: Value, value: Value, *, base_dilation: Sequence[int], padding: Sequence[tuple[int, int]],
                  window_dilation: Sequence[int], window_dimensions: Sequence[int],
                  window_strides: Sequence[int]) -> Value:
    """Stack the elements of windows along a new first axis, in row-major order: one strided slice per window element.

    Args:
      x: array `[...]`.
      value: the value of padding and of the gaps of `base_dilation`, in the dtype of `x`.
      base_dilation: per axis, the distance between the elements of `x`.
      padding: per axis, the numbers of elements added before and after; negative ones crop.
      window_dilation: per axis, the distance between the elements of a window.
      window_dimensions: per axis, the number of elements of a window.
      window_strides: per axis, the distance between windows.
    Returns:
      Array `[elements of a window, ...number of windows per axis]`.

    >>> one = (1,)
    >>> stack_windows(np.arange(4), 0, base_dilation=one, padding=((0, 0),), window_dilation=one, window_dimensions=(2,),
    ...                 window_strides=one).tolist()
    [[0, 1, 2], [1, 2, 3]]
    """
    shape = typeof(x).shape
    counts = [*map(window_count, shape, window_dimensions, window_strides, padding, base_dilation, window_dilation)]
    if 0 in counts:
        return full((int(np.prod(window_dimensions)), *counts), 0, typeof(x).dtype)
    x = sh.pad(x, value, [(low, high, b - 1) for (low, high), b in zip(padding, base_dilation, strict=True)])
    rows = []
    for at in np.ndindex(*window_dimensions):
        firsts = [k * g for k, g in zip(at, window_dilation, strict=True)]
        ends = [f + (c - 1) * s + 1 for f, c, s in zip(firsts, counts, window_strides, strict=True)]
        rows.append(sh.expand_dims(sh.slice(x, firsts, ends, window_strides), (0,)))
    return sh.concatenate(rows, 0)
