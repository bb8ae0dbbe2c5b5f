"""Ops that slide a window over an array: reductions of each window, and what the derivative of a maximum needs.

The picture is StableHLO's `reduce_window`: the operand is spread out (`base_dilation`) and padded (negative padding
crops), and windows with gaps (`window_dilation`) are laid over it every `window_strides` places. Places without an
element, in gaps and padding, are left out.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .. import dtypes
from ..avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from ..primitive import Primitive
from .reductions import _KINDS, _NUMBER, _SMALL, MONOID, highest, lowest

__all__ = ["dilated_length", "reduce_window_max_p", "reduce_window_min_p", "reduce_window_p", "reduce_window_prod_p",
           "reduce_window_sum_p", "select_and_gather_add_p", "select_and_scatter_add_p", "window_count"]

_PARAMS = ("base_dilation", "padding", "window_dilation", "window_dimensions", "window_strides")
_ORDERED = "integers, floats or truth values"
_KINDS_HERE = {_NUMBER: _KINDS[_NUMBER], _ORDERED: lambda d: not dtypes.is_complex(d)}


def dilated_length(length: int, dilation: int) -> int:
    """How long an axis is once its elements stand `dilation` places apart."""
    return (length - 1) * dilation + 1 if length else 0


def window_count(length: int, size: int, stride: int = 1, padding: tuple[int, int] = (0, 0), base_dilation: int = 1,
                 window_dilation: int = 1) -> int:
    """How many windows fit along one axis.

    >>> window_count(10, 3, stride=2)
    4
    """
    room = dilated_length(length, base_dilation) + padding[0] + padding[1]
    reach = dilated_length(size, window_dilation)
    return 0 if room <= 0 or reach > room else (room - reach) // stride + 1


# --- types -------------------------------------------------------------------------------------------------------


def _check_lists(call: str, ndim: int, operand: str, section: str, **lists: Sequence[Any]) -> None:
    """Every list has an entry for each axis; sizes, strides and dilations are positive, paddings are pairs."""
    for name, values in lists.items():
        if len(values) != ndim:
            raise ShapeError(f"{call}: {name} needs one entry for each of {ndim} axes of {operand}; got {values} "
                             f"[StableHLO {section}]")
        if name == "padding":
            if any(len(p) != 2 for p in values):
                raise ShapeError(f"{call}: padding needs a pair (low, high) for each axis; got {values} "
                                 f"[StableHLO {section}]")
        elif any(v < 1 for v in values):
            raise ShapeError(f"{call}: {name} must be positive; got {values} [StableHLO {section}]")


def _windows_shape(call: str, x: ShapedArray, base_dilation: Any, padding: Any, window_dilation: Any,
                   window_dimensions: Any, window_strides: Any) -> tuple[int, ...]:
    _check_lists(call, len(x.shape), x.long(), "reduce_window C4-C12", window_dimensions=window_dimensions,
                 window_strides=window_strides, base_dilation=base_dilation, window_dilation=window_dilation,
                 padding=padding)
    return tuple(map(window_count, x.shape, window_dimensions, window_strides, padding, base_dilation,
                     window_dilation))


def _reduce_infer(name: str, kind: str) -> Callable[..., ShapedArray]:
    accepts = _KINDS_HERE[kind]

    @lru_cache(maxsize=1024)
    def infer(x: ShapedArray, **params: Any) -> ShapedArray:
        if not accepts(x.dtype):
            raise DTypeError(f"{name}: expected {kind}; got operand {x.long()}. Convert it first")
        return shaped(_windows_shape(name, x, **params), x.dtype, x.weak_type)
    return infer


def _generic_infer(*avals: ShapedArray, computation: Any, **params: Any) -> tuple[ShapedArray, ...]:
    n = len(avals) // 2
    xs, inits = avals[:n], avals[n:]
    got = "got operands " + ", ".join(a.long() for a in xs) + ", initial values " + ", ".join(a.long() for a in inits)
    if not n or len(inits) != n or any(i.shape or i.dtype != x.dtype for x, i in zip(xs, inits, strict=True)):
        raise ShapeError(f"reduce_window: expected one scalar initial value per operand, of its dtype; {got} "
                         "[StableHLO reduce_window C1-C3]")
    if any(x.shape != xs[0].shape for x in xs):
        raise ShapeError(f"reduce_window: operands must have one shape; {got} [StableHLO reduce_window C2]")
    outs = computation.out_avals
    if len(computation.in_avals) != 2 * n or [(a.shape, a.dtype) for a in outs] != [((), x.dtype) for x in xs]:
        raise ShapeError(f"reduce_window: the computation must take {2 * n} scalars and return {n} of the operands' "
                         f"dtypes; it returns {', '.join(a.long() for a in outs)} [StableHLO reduce_window C13]")
    shape = _windows_shape("reduce_window", xs[0], **params)
    return tuple([shaped(shape, x.dtype) for x in xs])


def _check_select(call: str, select: str, x: ShapedArray) -> None:
    if select not in ("ge", "le"):
        raise ValueError(f"{call}: select must be 'ge' (the largest) or 'le' (the smallest); got {select!r}")
    if dtypes.is_complex(x.dtype):
        raise DTypeError(f"{call}: expected an operand that can be ordered; got {x.long()}")


def _gather_infer(tangents: ShapedArray, x: ShapedArray, *, select: str, **params: Any) -> ShapedArray:
    _check_select("select_and_gather_add", select, x)
    if tangents.shape != x.shape:
        raise ShapeError(f"select_and_gather_add: tangents and operand must have one shape; got {tangents.long()} and "
                         f"{x.long()}")
    return shaped(_windows_shape("select_and_gather_add", x, **params), tangents.dtype, tangents.weak_type)


def _scatter_infer(source: ShapedArray, x: ShapedArray, *, padding: Any, select: str, window_dimensions: Any,
                   window_strides: Any) -> ShapedArray:
    _check_select("select_and_scatter_add", select, x)
    ones = (1,) * len(x.shape)
    shape = _windows_shape("select_and_scatter_add", x, ones, padding, ones, window_dimensions, window_strides)
    if source.shape != shape:
        raise ShapeError(f"select_and_scatter_add: source must have one element per window, shape {shape}; got "
                         f"{source.long()} for operand {x.long()} [StableHLO select_and_scatter C2]")
    return shaped(x.shape, source.dtype, source.weak_type)


# --- meaning -----------------------------------------------------------------------------------------------------


def spread_out(x: np.ndarray, value: Any, padding: Sequence[tuple[int, int]], dilation: Sequence[int]) -> np.ndarray:
    """`x` with its elements `dilation` places apart, padded or cropped; `value` in all new places."""
    lengths = [dilated_length(n, d) for n, d in zip(x.shape, dilation, strict=True)]
    whole = np.full(lengths, value, x.dtype)
    whole[tuple(slice(None, None, d) for d in dilation)] = x
    shape = [max(n + lo + hi, 0) for n, (lo, hi) in zip(lengths, padding, strict=True)]
    out = np.full(shape, value, x.dtype)
    firsts = [max(0, -lo) for lo, _ in padding]
    lasts = [max(f, min(n, m - lo)) for f, n, m, (lo, _) in zip(firsts, lengths, shape, padding, strict=True)]
    source = tuple(slice(f, e) for f, e in zip(firsts, lasts, strict=True))
    out[tuple(slice(max(f + lo, 0), max(e + lo, 0)) if e > f else slice(0, 0)
              for f, e, (lo, _) in zip(firsts, lasts, padding, strict=True))] = whole[source]
    return out


def stacked(x: np.ndarray, value: Any, *, base_dilation: Any, padding: Any, window_dilation: Any,
            window_dimensions: Any, window_strides: Any) -> np.ndarray:
    """The windows of `x`, their elements along a new first axis in row-major order."""
    counts = [window_count(*row) for row in zip(x.shape, window_dimensions, window_strides, padding, base_dilation,
                                                window_dilation, strict=True)]
    if 0 in counts:  # no window fits; there may be very many elements in one
        return np.zeros((prod(window_dimensions), *counts), x.dtype)
    wide = spread_out(x, value, padding, base_dilation)
    rows = [wide[tuple(slice(k * d, k * d + max(c - 1, 0) * s + 1, s) if c else slice(0, 0)
                       for k, d, c, s in zip(at, window_dilation, counts, window_strides, strict=True))]
            for at in np.ndindex(*window_dimensions)]
    return np.stack(rows)


def _over(ufunc: np.ufunc, start: Callable[[np.dtype], Any]) -> Callable[..., Any]:
    def meaning(x: Any, **params: Any) -> Any:
        rows = stacked(x, start(x.dtype), **params)
        rows = rows.astype(np.float32) if x.dtype in _SMALL else rows
        dtype: dict[str, Any] = {} if ufunc in (np.maximum, np.minimum) else {"dtype": rows.dtype}
        return ufunc.reduce(rows, axis=0, **dtype).astype(x.dtype)
    return meaning


def _generic(run: Any, *args: Any, computation: Any, **params: Any) -> tuple[Any, ...]:
    n = len(args) // 2
    rows = [stacked(x, i, **params) for x, i in zip(args[:n], args[n:], strict=True)]
    inside = stacked(np.ones(args[0].shape, bool), False, **params)
    outs = [np.full(r.shape[1:], i, r.dtype) for r, i in zip(rows, args[n:], strict=True)]
    for at in np.ndindex(*rows[0].shape[1:]):
        state = [np.asarray(i) for i in args[n:]]
        for k in np.flatnonzero(inside[(slice(None), *at)]):
            state = run(computation, [*state, *(np.asarray(r[(k, *at)]) for r in rows)])
        for out, value in zip(outs, state, strict=True):
            out[at] = value
    return tuple(outs)


def _chosen(x: np.ndarray, select: str, params: dict[str, Any]) -> tuple[Any, Any]:
    """For each window which of its elements is the largest (or smallest), the first of equals; and whether any is."""
    worst = (lowest if select == "ge" else highest)(x.dtype)
    rows = stacked(x, worst, **params)
    rows = rows.astype(np.float32) if x.dtype in _SMALL else rows
    inside = stacked(np.ones(x.shape, bool), False, **params)
    better = inside & (rows != worst)
    which = np.where(better.any(0), np.argmax(rows, 0) if select == "ge" else np.argmin(rows, 0), np.argmax(inside, 0))
    return which, inside.any(0)


def _select_and_gather_add(tangents: Any, x: Any, *, select: str, **params: Any) -> Any:
    which, _ = _chosen(x, select, params)
    rows = stacked(tangents, 0, **params)
    return np.take_along_axis(rows, which[None], 0)[0]


def _select_and_scatter_add(source: Any, x: Any, *, padding: Any, select: str, window_dimensions: Any,
                            window_strides: Any) -> Any:
    ones = (1,) * x.ndim
    params = dict(base_dilation=ones, padding=padding, window_dilation=ones, window_dimensions=window_dimensions,
                  window_strides=window_strides)
    which, some = _chosen(x, select, params)
    places = stacked(np.arange(x.size).reshape(x.shape), 0, **params)
    where = np.take_along_axis(places, which[None], 0)[0]
    wide = source.astype(np.float32) if source.dtype in _SMALL else source
    out = np.zeros(x.size, wide.dtype)
    np.add.at(out, where[some], wide[some])
    return out.reshape(x.shape).astype(source.dtype)


def _window_op(name: str, kind: str, ufunc: np.ufunc, start: Callable[[np.dtype], Any], **facts: Any) -> Primitive:
    return Primitive(name, params=_PARAMS, family="windows", infer=_reduce_infer(name, kind),
                     numpy=_over(ufunc, start), spec="reduce_window", **facts)


reduce_window_sum_p = _window_op("reduce_window_sum", _NUMBER, np.add, lambda d: 0, linear_in=(0,))
reduce_window_prod_p = _window_op("reduce_window_prod", _NUMBER, np.multiply, lambda d: 1)
reduce_window_max_p = _window_op("reduce_window_max", _ORDERED, np.maximum, lowest)
reduce_window_min_p = _window_op("reduce_window_min", _ORDERED, np.minimum, highest)
reduce_window_p = Primitive("reduce_window", params=("base_dilation", "computation", *_PARAMS[1:]), family="windows",
                            infer=_generic_infer, numpy=_generic, multiple=True, flow=MONOID,
                            spec="reduce_window")
select_and_gather_add_p = Primitive(
    "select_and_gather_add", params=("base_dilation", "padding", "select", *_PARAMS[2:]), family="windows",
    infer=_gather_infer, numpy=_select_and_gather_add, linear_in=(0,), spec="reduce_window")
select_and_scatter_add_p = Primitive(
    "select_and_scatter_add", params=("padding", "select", "window_dimensions", "window_strides"), family="windows",
    infer=_scatter_infer, numpy=_select_and_scatter_add, linear_in=(0,), spec="select_and_scatter")
