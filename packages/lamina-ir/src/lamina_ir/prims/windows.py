"""Primitives that slide a window over an array: reductions of each window, and operations for derivatives of maxima.

The semantics are those of StableHLO's `reduce_window`. The operand is dilated (`base_dilation`) and padded (negative
padding crops). Windows with gaps (`window_dilation`) start every `window_strides` positions. Positions without an
element, in gaps and padding, are ignored.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._core.primitive import Primitive
from .reductions import _KINDS, _NUMBER, _SMALL, MONOID, highest, lowest
from ..typing import Function, ParamValue, Params, Value
from .._core.jaxpr import ClosedJaxpr
from .._typing import RunProgram

__all__ = ["dilated_length", "reduce_window_max_p", "reduce_window_min_p", "reduce_window_p", "reduce_window_prod_p",
           "reduce_window_sum_p", "select_and_gather_add_p", "select_and_scatter_add_p", "window_count"]

_PARAMS = ("base_dilation", "padding", "window_dilation", "window_dimensions", "window_strides")
_ORDERED = "integers, floats or truth values"
_KINDS_HERE = {_NUMBER: _KINDS[_NUMBER], _ORDERED: lambda d: not dtypes.is_complex(d)}


def dilated_length(length: int, dilation: int) -> int:
    """Return the length of an axis whose elements are `dilation` positions apart."""
    return (length - 1) * dilation + 1 if length else 0


def window_count(length: int, size: int, stride: int = 1, padding: tuple[int, int] = (0, 0), base_dilation: int = 1,
                 window_dilation: int = 1) -> int:
    """Return the number of windows that fit along one axis.

    >>> window_count(10, 3, stride=2)
    4
    """
    length_available = dilated_length(length, base_dilation) + padding[0] + padding[1]
    window_length = dilated_length(size, window_dilation)
    return 0 if length_available <= 0 or window_length > length_available else (length_available - window_length) // stride + 1


# --- types -------------------------------------------------------------------------------------------------------


def _check_lists(call: str, ndim: int, operand: str, **lists: Sequence[Any]) -> None:
    """Check that every list has an entry per axis; sizes, strides and dilations are positive, paddings are pairs."""
    for name, values in lists.items():
        if len(values) != ndim:
            raise ShapeError(f"{call}: {name} needs one entry for each of {ndim} axes of {operand}; got {values}")
        if name == "padding":
            if any(len(p) != 2 for p in values):
                raise ShapeError(f"{call}: padding needs a pair (low, high) for each axis; got {values}")
        elif any(v < 1 for v in values):
            raise ShapeError(f"{call}: {name} must be positive; got {values}")


def _windows_shape(call: str, x: ShapedArray, base_dilation: tuple[int, ...], padding: tuple[tuple[int, int], ...],
                   window_dilation: tuple[int, ...], window_dimensions: tuple[int, ...],
                   window_strides: tuple[int, ...]) -> tuple[int, ...]:
    # StableHLO reduce_window C4-C12
    _check_lists(call, len(x.shape), x.str_long(), window_dimensions=window_dimensions, window_strides=window_strides,
                 base_dilation=base_dilation, window_dilation=window_dilation, padding=padding)
    return tuple(map(window_count, x.shape, window_dimensions, window_strides, padding, base_dilation,
                     window_dilation))


def _reduce_infer(name: str, kind: str) -> Callable[..., ShapedArray]:
    accepts = _KINDS_HERE[kind]

    @lru_cache(maxsize=1024)
    def infer(x: ShapedArray, **params: ParamValue) -> ShapedArray:
        if not accepts(x.dtype):
            raise DTypeError(f"{name}: expected {kind}; got operand {x.str_long()}. Convert it first")
        return shaped(_windows_shape(name, x, **params), x.dtype, x.weak_type)
    return infer


def _generic_infer(*avals: ShapedArray, computation: ClosedJaxpr, **params: ParamValue) -> tuple[ShapedArray, ...]:
    n = len(avals) // 2
    xs, inits = avals[:n], avals[n:]
    got = "got operands " + ", ".join(a.str_long() for a in xs) + ", initial values " + ", ".join(a.str_long() for a in inits)
    if not n or len(inits) != n or any(i.shape or i.dtype != x.dtype for x, i in zip(xs, inits, strict=True)):
        # StableHLO reduce_window C1-C3
        raise ShapeError(f"reduce_window: expected one scalar initial value per operand, of its dtype; {got}")
    if any(x.shape != xs[0].shape for x in xs):
        # StableHLO reduce_window C2
        raise ShapeError(f"reduce_window: operands must have one shape; {got}")
    outs = computation.out_avals
    if len(computation.in_avals) != 2 * n or [(a.shape, a.dtype) for a in outs] != [((), x.dtype) for x in xs]:
        # StableHLO reduce_window C13
        raise ShapeError(f"reduce_window: the computation must take {2 * n} scalars and return {n} of the operands' "
                         f"dtypes; it returns {', '.join(a.str_long() for a in outs)}")
    shape = _windows_shape("reduce_window", xs[0], **params)
    return tuple([shaped(shape, x.dtype) for x in xs])


def _check_select(call: str, select: str, x: ShapedArray) -> None:
    if select not in ("ge", "le"):
        raise ValueError(f"{call}: select must be 'ge' (the largest) or 'le' (the smallest); got {select!r}")
    if dtypes.is_complex(x.dtype):
        raise DTypeError(f"{call}: expected an operand that can be ordered; got {x.str_long()}")


def _gather_infer(tangents: ShapedArray, x: ShapedArray, *, select: str, **params: ParamValue) -> ShapedArray:
    _check_select("select_and_gather_add", select, x)
    if tangents.shape != x.shape:
        raise ShapeError(f"select_and_gather_add: tangents and operand must have one shape; got {tangents.str_long()} and "
                         f"{x.str_long()}")
    return shaped(_windows_shape("select_and_gather_add", x, **params), tangents.dtype, tangents.weak_type)


def _scatter_infer(source: ShapedArray, x: ShapedArray, *, padding: tuple[tuple[int, int], ...], select: str,
                   window_dimensions: tuple[int, ...], window_strides: tuple[int, ...]) -> ShapedArray:
    _check_select("select_and_scatter_add", select, x)
    ones = (1,) * len(x.shape)
    shape = _windows_shape("select_and_scatter_add", x, ones, padding, ones, window_dimensions, window_strides)
    if source.shape != shape:
        # StableHLO select_and_scatter C2
        raise ShapeError(f"select_and_scatter_add: source must have one element per window, shape {shape}; got "
                         f"{source.str_long()} for operand {x.str_long()}")
    return shaped(x.shape, source.dtype, source.weak_type)


# --- NumPy implementations ---------------------------------------------------------------------------------------


def dilate_and_pad(x: np.ndarray, value: Value, padding: Sequence[tuple[int, int]],
                   dilation: Sequence[int]) -> np.ndarray:
    """Dilate `x` so that its elements are `dilation` positions apart, then pad or crop it; fill new positions with
    `value`."""
    lengths = [dilated_length(n, d) for n, d in zip(x.shape, dilation, strict=True)]
    dilated = np.full(lengths, value, x.dtype)
    dilated[tuple(slice(None, None, d) for d in dilation)] = x
    shape = [max(n + lo + hi, 0) for n, (lo, hi) in zip(lengths, padding, strict=True)]
    out = np.full(shape, value, x.dtype)
    # [firsts, lasts): the elements that negative padding does not crop. They move by `lo`.
    firsts = [max(0, -lo) for lo, _ in padding]
    lasts = [max(f, min(n, m - lo)) for f, n, m, (lo, _) in zip(firsts, lengths, shape, padding, strict=True)]
    source = tuple(slice(f, e) for f, e in zip(firsts, lasts, strict=True))
    out[tuple(slice(max(f + lo, 0), max(e + lo, 0)) if e > f else slice(0, 0)
              for f, e, (lo, _) in zip(firsts, lasts, padding, strict=True))] = dilated[source]
    return out


def stack_windows(x: np.ndarray, value: Value, *, base_dilation: tuple[int, ...], padding: tuple[tuple[int, int], ...],
                  window_dilation: tuple[int, ...], window_dimensions: tuple[int, ...],
                  window_strides: tuple[int, ...]) -> np.ndarray:
    """Stack the windows of `x`: the result has a new first axis with the elements of a window in row-major order."""
    counts = [window_count(*entry) for entry in zip(x.shape, window_dimensions, window_strides, padding, base_dilation,
                                                    window_dilation, strict=True)]
    if 0 in counts:  # no window fits: skip stacking, since a window may have very many elements
        return np.zeros((prod(window_dimensions), *counts), x.dtype)
    padded = dilate_and_pad(x, value, padding, base_dilation)
    # Element k of all windows at once: a strided slice, from k * d to the start of the last window plus k * d.
    elements = [padded[tuple(slice(k * d, k * d + max(c - 1, 0) * s + 1, s) if c else slice(0, 0)
                       for k, d, c, s in zip(at, window_dilation, counts, window_strides, strict=True))]
                for at in np.ndindex(*window_dimensions)]
    return np.stack(elements)


def _reduce_windows_by(ufunc: np.ufunc, start: Callable[[np.dtype], Value]) -> Function:
    def implementation(x: Value, **params: ParamValue) -> Value:
        elements = stack_windows(x, start(x.dtype), **params)
        elements = elements.astype(np.float32) if x.dtype in _SMALL else elements
        # NumPy sums small integers in a wider dtype by default; the primitive wraps around in its own.
        dtype: dict[str, Any] = {} if ufunc in (np.maximum, np.minimum) else {"dtype": elements.dtype}
        return ufunc.reduce(elements, axis=0, **dtype).astype(x.dtype)
    return implementation


def _generic(run: RunProgram, *args: Value, computation: ClosedJaxpr, **params: ParamValue) -> tuple[Value, ...]:
    n = len(args) // 2
    elements = [stack_windows(x, i, **params) for x, i in zip(args[:n], args[n:], strict=True)]
    inside = stack_windows(np.ones(args[0].shape, bool), False, **params)
    outs = [np.full(r.shape[1:], i, r.dtype) for r, i in zip(elements, args[n:], strict=True)]
    for at in np.ndindex(*elements[0].shape[1:]):
        state = [np.asarray(i) for i in args[n:]]
        # The computation need not have a neutral element, so positions without an element are skipped, not filled.
        for k in np.flatnonzero(inside[(slice(None), *at)]):
            state = run(computation, [*state, *(np.asarray(r[(k, *at)]) for r in elements)])
        for out, value in zip(outs, state, strict=True):
            out[at] = value
    return tuple(outs)


def _select_elements(x: np.ndarray, select: str, params: Params) -> tuple[Value, Value]:
    """Return the index of the largest (or smallest) element of each window, the first among equals, and a mask of the
    windows that have any element."""
    worst = (lowest if select == "ge" else highest)(x.dtype)
    elements = stack_windows(x, worst, **params)
    elements = elements.astype(np.float32) if x.dtype in _SMALL else elements
    inside = stack_windows(np.ones(x.shape, bool), False, **params)
    # If all elements equal the fill value, argmax could choose a position in the padding. Then the first real element
    # is chosen.
    better = inside & (elements != worst)
    which = np.where(better.any(0), np.argmax(elements, 0) if select == "ge" else np.argmin(elements, 0), np.argmax(inside, 0))
    return which, inside.any(0)


def _select_and_gather_add(tangents: Value, x: Value, *, select: str, **params: ParamValue) -> Value:
    which, _ = _select_elements(x, select, params)
    elements = stack_windows(tangents, 0, **params)
    return np.take_along_axis(elements, which[None], 0)[0]


def _select_and_scatter_add(source: Value, x: Value, *, padding: tuple[tuple[int, int], ...], select: str,
                            window_dimensions: tuple[int, ...], window_strides: tuple[int, ...]) -> Value:
    ones = (1,) * x.ndim
    params = dict(base_dilation=ones, padding=padding, window_dilation=ones, window_dimensions=window_dimensions,
                  window_strides=window_strides)
    which, some = _select_elements(x, select, params)
    places = stack_windows(np.arange(x.size).reshape(x.shape), 0, **params)
    where = np.take_along_axis(places, which[None], 0)[0]
    wide = source.astype(np.float32) if source.dtype in _SMALL else source
    out = np.zeros(x.size, wide.dtype)
    # Unbuffered: windows overlap, so an element may be the largest of several. Empty windows have no element.
    np.add.at(out, where[some], wide[some])
    return out.reshape(x.shape).astype(source.dtype)


def _window_op(name: str, kind: str, ufunc: np.ufunc, start: Callable[[np.dtype], Value],
               **facts: ParamValue) -> Primitive:
    return Primitive(name, params=_PARAMS, family="windows", infer=_reduce_infer(name, kind),
                     numpy=_reduce_windows_by(ufunc, start), spec="reduce_window", **facts)


reduce_window_sum_p = _window_op("reduce_window_sum", _NUMBER, np.add, lambda d: 0, linear_in=(0,))
reduce_window_prod_p = _window_op("reduce_window_prod", _NUMBER, np.multiply, lambda d: 1)
reduce_window_max_p = _window_op("reduce_window_max", _ORDERED, np.maximum, lowest)
reduce_window_min_p = _window_op("reduce_window_min", _ORDERED, np.minimum, highest)
reduce_window_p = Primitive("reduce_window", params=("base_dilation", "computation", *_PARAMS[1:]), family="windows",
                            infer=_generic_infer, numpy=_generic, multiple=True, region_signature=MONOID,
                            spec="reduce_window")
select_and_gather_add_p = Primitive(
    "select_and_gather_add", params=("base_dilation", "padding", "select", *_PARAMS[2:]), family="windows",
    infer=_gather_infer, numpy=_select_and_gather_add, linear_in=(0,), spec="reduce_window")
select_and_scatter_add_p = Primitive(
    "select_and_scatter_add", params=("padding", "select", "window_dimensions", "window_strides"), family="windows",
    infer=_scatter_infer, numpy=_select_and_scatter_add, linear_in=(0,), spec="select_and_scatter")
