"""Padding: constants, reflections, ramps and statistics around an array."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, lax
from lamina_tracing.extend import check_axis, typeof

from .._core.promotion import broadcast, cast, literal
from .._core.public_api import jitted_core
from .._core.axes import split_at
from .._core.conversion import asarray
from .._elementwise.rounding import round as to_nearest
from .._shape.layout import moveaxis, squeeze
from .._shape.joining import concatenate
from .._creation.ranges import linspace
from .._reductions.reductions import max as highest
from .._reductions.reductions import min as lowest
from .._reductions.averages import mean
from .._products.products import tensordot
from .._indexing.take import take
from .._sorting.quantiles import median
from .apply import apply_along_axis

__all__ = ["pad"]

_BY_INDEX = ("edge", "reflect", "symmetric", "wrap")


def _parse_widths(name: str, n: int, width: Any) -> tuple[tuple[int, int], ...]:
    try:
        pairs = np.broadcast_to(np.asarray(width), (n, 2))
    except ValueError:
        raise ValueError(f"pad: {name} must be (before, after) for each of {n} axes, or broadcast to it; got "
                         f"{width!r}") from None
    if pairs.dtype.kind not in "iu":
        raise TypeError(f"pad: {name} must be integers; got {width!r}")
    if pairs.size and pairs.min() < 0:
        raise ValueError(f"pad: {name} must not be negative; got {width!r}")
    return tuple((int(b), int(a)) for b, a in pairs)


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """An array with elements added before and after along its axes.

    Args:
      array: array of n axes and any dtype, or a list.
      pad_width: `(before, after)` per axis, known and not negative, or anything that broadcasts to `(n, 2)`; or a
        dict from axes to such, or to a number for both.
      mode: "constant"; "edge" (the last element), "reflect" and "symmetric" (mirrored at it, or behind it), "wrap"
        (from the other end); "linear_ramp"; "maximum", "minimum", "mean", "median" of the axis; "empty" (zeros). Or a
        function `f(line, (before, after), axis, kwargs)` that returns the whole line of the result for one that has
        zeros there.
      kwargs: "constant" takes `constant_values` and "linear_ramp" takes `end_values`: a number or an array that
        broadcasts to `(n, 2)`, by default 0. "reflect" and "symmetric" take `reflect_type`, "even" or "odd" (twice the
        edge minus the mirrored). The statistics take `stat_length`, the number of elements from each end that count, by
        default all. A function takes anything.
    Returns:
      Array of the dtype and units of `array`, longer by the widths; statistics of integers are rounded, ramps
      rounded down, other values cast.
    Raises:
      ValueError: `pad_width` has another shape or is negative, `mode` is another word or does not take one of
        `kwargs`, or has no elements to go by.
      TypeError: `pad_width` or `stat_length` is no integer, or `array` is neither an array nor numbers.
      ShapeError: a dict names an axis that is not there.

    Derivative: linear in `array`, but for "median", "maximum" and "minimum", where it is that of the statistic.
    Source: meaning of `numpy.pad`, whose functions change the line in place.

    >>> pad(asarray([1, 2]), 1)
    Array([0, 1, 2, 0], dtype=int32)
    >>> pad(asarray([1, 2, 3]), (2, 0), mode="reflect")
    Array([3, 2, 1, 2, 3], dtype=int32)
    """
    array = asarray(array)
    n = len(typeof(array).shape)
    if isinstance(pad_width, dict):
        named = {check_axis("pad", k, n): v for k, v in pad_width.items()}
        pad_width = [(v, v) if isinstance(v := named.get(i, 0), int) else v for i in range(n)]
    widths = _parse_widths("pad_width", n, pad_width)
    # Widths and mode are known here: each kind of padding is a compiled function of its own.
    allowed = {"constant": {"constant_values"}, "linear_ramp": {"end_values"}, "reflect": {"reflect_type"},
               "symmetric": {"reflect_type"}, "edge": set(), "wrap": set(),
               **{m: {"stat_length"} for m in ("maximum", "minimum", "mean", "median")}}
    if callable(mode):
        return _pad_by(array, widths, mode, kwargs)
    unknown = set(kwargs) - allowed.get(mode, set())
    if unknown:
        raise ValueError(f"pad: mode {mode!r} does not take {', '.join(sorted(unknown))}")
    if mode in ("constant", "empty"):
        value = kwargs.get("constant_values", 0)
        if isinstance(value, (list, tuple, np.ndarray)):
            value = asarray(value)
        return _pad_constant(array, value, widths)
    empty = [i for i, (size, pair) in enumerate(zip(typeof(array).shape, widths)) if not size and any(pair)]
    if empty and mode in allowed:
        raise ValueError(f"pad: axis {empty[0]} is empty; mode {mode!r} needs at least one element")
    if mode in _BY_INDEX:
        return _pad_by_index(array, widths, mode, kwargs.get("reflect_type", "even"))
    if mode == "linear_ramp":
        return _pad_ramp(array, asarray(kwargs.get("end_values", 0)), widths)
    if mode in ("maximum", "minimum", "mean", "median"):
        length = kwargs.get("stat_length")
        return _pad_stat(array, widths, mode, None if length is None else _parse_widths("stat_length", n, length))
    raise ValueError(f"pad: unknown mode {mode!r}; see the documentation for the list")


@jitted_core("widths", name="pad")
def _pad_constant(array: Any, value: Any, widths: tuple[tuple[int, int], ...]) -> Any:
    d = typeof(array).dtype
    n = len(widths)
    value = cast(value, d)
    if not typeof(value).shape:
        return lax.pad(array, value, tuple((b, a, 0) for b, a in widths))
    value = broadcast(value, typeof(value).shape, (n, 2))
    for i, (b, a) in enumerate(widths):
        for side, amount in enumerate(((b, 0, 0), (0, a, 0))):
            config = tuple(amount if j == i else (0, 0, 0) for j in range(n))
            array = lax.pad(array, value[i, side], config)
    return array


@jitted_core("widths", "mode", "reflect_type", name="pad")
def _pad_by_index(array: Any, widths: tuple[tuple[int, int], ...], mode: str, reflect_type: str) -> Any:
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"pad: reflect_type must be 'even' or 'odd'; got {reflect_type!r}")
    for i, (b, a) in enumerate(widths):
        n = typeof(array).shape[i]
        if not (b or a):
            continue
        places = np.pad(np.arange(n), (b, a), mode=mode)  # type: ignore[call-overload]
        if reflect_type == "even" or mode not in ("reflect", "symmetric"):
            array = take(array, places, axis=i)
            continue
        array = _pad_odd(array, i, n, b, a, mode)
    return array


def _pad_odd(array: Any, axis: int, n: int, b: int, a: int, mode: str) -> Any:
    """Reflection that continues the derivative, `2 * edge - mirrored`, is linear: apply the matrix of `numpy.pad`."""
    matrix = np.stack([np.pad(row, (b, a), mode=mode, reflect_type="odd")  # type: ignore[call-overload]
                       for row in np.eye(n)])
    out = tensordot(array, asarray(matrix, dtype=typeof(array).dtype), axes=((axis,), (0,)))
    return moveaxis(out, -1, axis)


@jitted_core("widths", name="pad")
def _pad_ramp(array: Any, end: Any, widths: tuple[tuple[int, int], ...]) -> Any:
    d = typeof(array).dtype
    end = broadcast(end, typeof(end).shape, (len(widths), 2))
    for i, (b, a) in enumerate(widths):
        n = typeof(array).shape[i]
        first, last = split_at(array, [1], i)[0], split_at(array, [n - 1], i)[1]
        before = linspace(end[i, 0], squeeze(first, i), b, endpoint=False, axis=i, dtype=d)
        after = _flip(linspace(end[i, 1], squeeze(last, i), a, endpoint=False, axis=i, dtype=d), i)
        array = concatenate([before, array, after], i)
    return array


def _flip(x: Any, axis: int) -> Any:
    return lax.rev(x, (axis,))


@jitted_core("widths", "mode", "lengths", name="pad")
def _pad_stat(array: Any, widths: tuple[tuple[int, int], ...], mode: str, lengths: Any) -> Any:
    fun: Any = {"maximum": highest, "minimum": lowest, "mean": mean, "median": median}[mode]
    d = typeof(array).dtype
    for i, (b, a) in enumerate(widths):
        n = typeof(array).shape[i]
        lo, hi = (n, n) if lengths is None else (min(lengths[i][0], n), min(lengths[i][1], n))
        ends = []
        for part, width in ((split_at(array, [lo], i)[0], b), (split_at(array, [n - hi], i)[1] if hi < n else array, a)):
            value = fun(part, axis=i, keepdims=True)
            value = cast(to_nearest(value) if dtypes.is_integer(d) else value, d)
            ends.append(broadcast(value, typeof(value).shape, tuple(
                width if j == i else s for j, s in enumerate(typeof(value).shape))))
        array = concatenate([ends[0], array, ends[1]], i)
    return array


def _pad_by(array: Any, widths: tuple[tuple[int, int], ...], fun: Any, kwargs: dict[str, Any]) -> Any:
    out = _pad_constant(array, literal(0, typeof(array).dtype), widths)
    for i, pair in enumerate(widths):
        out = apply_along_axis(lambda v, pair=pair, i=i: _check_result(fun(v, pair, i, kwargs), v), i, out)
    return out


def _check_result(new: Any, old: Any) -> Any:
    if new is None:
        raise ValueError("pad: a padding function must return the padded vector, since arrays are immutable")
    return cast(new, typeof(old).dtype)
