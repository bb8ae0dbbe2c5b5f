"""Along one axis: differences, derivatives, integrals, interpolation."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, AxisLike, lax
from lamina_tracing.extend import as_int, check_axes, check_axis, is_axis_name, typeof

from .._core.promotion import broadcast, cast, check_promotion, literal, promote_all, to_inexact, work_dtype
from .._core.named_axes import along_axis, gather_to_front
from .._core.public_api import jitted_core, public_api, to_hashable
from .._core.axes import insert_axes, split_at
from .._core.select import choose_by
from .._core.conversion import asarray, to_array
from .._elementwise.division import remainder
from .._shape.layout import moveaxis, ravel, reshape
from .._shape.joining import concatenate
from .._creation.creation import arange
from .._reductions.reductions import sum as total
from .._reductions.cumulative import cumsum
from .._indexing.take import take
from .._indexing.searching import searchsorted

__all__ = ["diff", "ediff1d", "gradient", "interp", "trapezoid", "unwrap"]


def _drop_end(a: Any, at: int, skip_first: bool) -> Any:
    n = typeof(a).shape[at]
    return split_at(a, [1], at)[1] if skip_first else split_at(a, [n - 1], at)[0]


@public_api("n", "axis")
def diff(a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None,
         append: ArrayLike | None = None) -> Array:
    """Differences of neighbours along an axis, `n` times over.

    Args:
      a: number or boolean array `[..., k, ...]`.
      n: how many times, not negative.
      axis: the axis of length k; negative counts from the end.
      prepend, append: an array of the axes of `a`, or a number, to put before or after first; None for nothing.
    Returns:
      Array `[..., k - n, ...]`, at least of length 0, in the units of `a` and its dtype, or what it promotes to
      with `prepend` and `append`; unsigned integers wrap around, booleans say whether neighbours differ.
    Raises:
      ValueError: `n` is negative, or `a` has no axes.
      ShapeError: `axis` names an axis that `a` does not have, or `prepend` or `append` does not fit.
      TypeError: `a` is neither an array nor a number.

    Derivative: linear.
    Source: meaning of `numpy.diff`.

    >>> diff(np.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    a = to_array("diff", a)
    shape = typeof(a).shape
    n = as_int("diff", "n", n)
    if n < 0:
        raise ValueError(f"diff: n must not be negative; got {n}")
    if not shape:
        raise ValueError("diff: expected at least one axis")
    at = check_axis("diff", axis, len(shape))
    parts = [a]
    one = tuple(1 if i == at else s for i, s in enumerate(shape))
    for extra, first in ((prepend, True), (append, False)):
        if extra is not None:
            extra = to_array("diff", extra)
            if not typeof(extra).shape:
                extra = broadcast(extra, (), one)
            parts.insert(0 if first else len(parts), extra)
    if len(parts) > 1:
        a = concatenate(parts, at)
    for _ in range(n):
        if typeof(a).shape[at] == 0:
            break
        after, before = _drop_end(a, at, True), _drop_end(a, at, False)
        a = lax.ne(after, before) if typeof(a).dtype == dtypes.BOOL else lax.sub(after, before)
    return a


@public_api()
def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """Differences of neighbours of the flat array, with other numbers put before and after.

    Args:
      ary: number or boolean array, taken as flat.
      to_end, to_begin: numbers to put after and before, an array taken as flat or a number, of no higher kind than
        `ary`; None for none.
    Returns:
      Array with one axis, of the dtype and units of `ary`.
    Raises:
      TypeError: `ary` is neither an array nor a number, or `to_end` or `to_begin` does not fit its dtype.

    Derivative: linear.
    Source: meaning of `numpy.ediff1d`.

    >>> ediff1d(np.array([1, 4, 9]), to_begin=0)
    Array([0, 3, 5], dtype=int32)
    """
    ary = ravel(to_array("ediff1d", ary))
    d = typeof(ary).dtype
    parts = [diff(ary)]
    for name, extra, place in (("to_begin", to_begin, 0), ("to_end", to_end, 2)):
        if extra is not None:
            extra = ravel(asarray(extra))
            if dtypes.promote((d, False), (typeof(extra).dtype, True))[0] != d:
                raise TypeError(f"ediff1d: {name} must fit {d} without loss; got {typeof(extra).str_long()}")
            parts.insert(place, cast(extra, d))
    return concatenate(parts)


@public_api("axis", "edge_order")
@along_axis(several=True)
def gradient(f: ArrayLike, *varargs: Any, axis: AxisLike = None, edge_order: int | None = None) -> Any:
    """Derivatives along axes by central differences, one-sided at the ends.

    Args:
      f: number array, at least two samples along each axis.
      varargs: the spacing: none for 1, one for all axes, or one per axis; each a number, or coordinates `[n]` of
        that axis.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all; negative ones count from the end.
      edge_order: 1, 2 or None (1): order of the differences at the ends; 2 needs three samples.
    Returns:
      Float array of the shape of `f`, in its units over those of the spacing; with more than one axis, or none, a
      list with an array per axis.
    Raises:
      ValueError: an axis has fewer than `edge_order + 1` samples, or coordinates have another length, or `edge_order` is
        another number.
      TypeError: the number of spacings is none of those, or `f` is neither an array nor a number.
      ShapeError: `axis` names an axis that `f` does not have, or one twice.

    Derivative: linear in `f`.
    Source: meaning of `numpy.gradient`, there a tuple.

    >>> gradient(np.array([1., 4., 9.]))
    Array([3., 4., 5.], dtype=float32)
    """
    if edge_order not in (None, 1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2; got {edge_order!r}")
    least = (edge_order or 1) + 1
    f = to_inexact("gradient", f)
    shape = typeof(f).shape
    axes = tuple(range(len(shape))) if axis is None else check_axes("gradient", axis, len(shape))
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError(f"gradient: give no spacing, one, or one per axis ({len(axes)}); got {len(varargs)}")
    steps = list(varargs) or [1.0]
    steps = steps * (len(axes) if len(steps) == 1 else 1)
    out = []
    for at, h in zip(axes, steps):
        n = shape[at]
        if n < least:
            raise ValueError(f"gradient: axis {at} needs at least {least} samples; got {n}")
        out.append(_differentiate(f, at, n, asarray(h) if isinstance(h, (list, tuple)) else h, edge_order == 2))
    return out[0] if len(out) == 1 else out


def _differentiate(f: Any, at: int, n: int, h: Any, second_order: bool) -> Any:
    d = typeof(f).dtype
    rank = len(typeof(f).shape)

    def part(lo: int, hi: int) -> Any:
        return split_at(f, [lo, hi], at)[1]
    if not typeof(h).shape:
        h = cast(h, d)
        first = lax.div(lax.sub(part(1, 2), part(0, 1)), h)
        last = lax.div(lax.sub(part(n - 1, n), part(n - 2, n - 1)), h)
        if second_order:
            half = literal(0.5, d)
            first = lax.sub(first, lax.mul(half, lax.sub(lax.div(lax.sub(part(2, 3), part(1, 2)), h), first)))
            last = lax.add(last, lax.mul(half, lax.sub(last, lax.div(lax.sub(part(n - 2, n - 1), part(n - 3, n - 2)), h))))
        inner = lax.div(lax.sub(part(2, n), part(0, n - 2)), lax.mul(h, literal(2, d)))
        return concatenate([first, inner, last], at)
    if typeof(h).shape != (n,):
        raise ValueError(f"gradient: coordinates must have the length {n} of the axis; got {typeof(h).str_long()}")
    gaps = reshape(cast(diff(h), d), tuple(-1 if i == at else 1 for i in range(rank)))
    one, two = _drop_end(gaps, at, False), _drop_end(gaps, at, True)
    # The derivative of the parabola through three points, gaps h1 and h2 apart: -h2 / (h1 (h1 + h2)) f0 + (h2 - h1) /
    # (h1 h2) f1 +
    # h1 / (h2 (h1 + h2)) f2.
    a = -two / (one * (one + two))
    b = (two - one) / (one * two)
    c = one / (two * (one + two))
    inner = a * part(0, n - 2) + b * part(1, n - 1) + c * part(2, n)
    first = (part(1, 2) - part(0, 1)) / split_at(gaps, [1], at)[0]
    last = (part(n - 1, n) - part(n - 2, n - 1)) / split_at(gaps, [n - 2], at)[1]
    if second_order:  # the derivative of the parabola through the three samples at the end
        h0, h1 = split_at(gaps, [1], at)[0], split_at(gaps, [1, 2], at)[1]
        first = first - h0 * ((part(2, 3) - part(1, 2)) / h1 - first) / (h0 + h1)
        h0, h1 = split_at(gaps, [n - 2], at)[1], split_at(gaps, [n - 3, n - 2], at)[1]
        last = last + h0 * (last - (part(n - 2, n - 1) - part(n - 3, n - 2)) / h1) / (h0 + h1)
    return concatenate([first, inner, last], at)


@public_api("axis")
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """Integral along an axis by the trapezoid rule.

    Args:
      y: number array `[..., n, ...]`.
      x: coordinates of the samples, `[n]` or what broadcasts with `y`, along the same `axis`; None for equal distances.
      dx: distance between samples where `x` is None.
      axis: the axis of length n; negative counts from the end. Or the name of a mapped one: `x` is then the position's own.
    Returns:
      Float array of the other axes, in the units of `y` times those of `x`; 0 of fewer than two samples.
    Raises:
      ShapeError: `axis` names an axis that `y` does not have, or `x` has another length.
      TypeError: `y` or `x` is neither an array nor a number.

    Derivative: linear in `y`, and in `x`.
    Source: meaning of `numpy.trapezoid`.

    >>> trapezoid(np.array([1., 2., 3.]), dx=2.0)
    Array(8., dtype=float32)
    """
    if x is not None:
        check_promotion("trapezoid", y, x)
    y = to_inexact("trapezoid", to_array("trapezoid", y))
    if type(axis) is not int and is_axis_name(axis):
        y, x = gather_to_front(y, (axis,)), x if x is None else gather_to_front(to_array("trapezoid", x), (axis,))
        axis = 0
    at = check_axis("trapezoid", axis, len(typeof(y).shape))
    n = typeof(y).shape[at]
    if x is None and n > 1 and not np.ndim(dx):
        # Each sample once, the outer two half: of slices of `y` there would be copies.
        d = np.dtype("int32")
        place = lax.broadcasted_iota(d, tuple(n if a == at else 1 for a in range(len(typeof(y).shape))), at)
        ends = lax.bitwise_or(lax.eq(place, literal(0, d)), lax.eq(place, literal(n - 1, d)))
        return total(y * choose_by(ends, literal(0.5, typeof(y).dtype), literal(1, typeof(y).dtype)), at) * dx
    samples: Any = moveaxis(y, at, -1)
    gaps: Any = dx
    if x is not None:  # gaps in the wider dtype: differences cancel digits
        samples, places = promote_all("trapezoid", [samples, to_inexact("trapezoid", to_array("trapezoid", x))])
        gaps = insert_axes(diff(places), tuple(range(len(typeof(y).shape) - 1))) if len(typeof(places).shape) == 1 \
            else diff(moveaxis(places, axis, -1))  # counted from the end, it is an axis of `x` as of `y`
    return total((samples[..., 1:] + samples[..., :-1]) * gaps, -1) * 0.5


@public_api("axis")
@along_axis()
def unwrap(p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * np.pi) -> Array:
    """Jumps of more than half a period along an axis taken out, by adding whole periods.

    Args:
      p: real array `[..., n, ...]`, in radians unless `period` says otherwise.
      discont: the least jump that is taken out; None, and less than that, means half a period.
      axis: the axis of length n, or the name of a mapped one; negative counts from the end.
      period: number: the period, in the units of `p`.
    Returns:
      Float array of the shape and units of `p`.
    Raises:
      ValueError: `p` is complex.
      ShapeError: `axis` names an axis that `p` does not have.
      TypeError: `p` is neither an array nor a number.

    Derivative: that of `p`.
    Source: meaning of `numpy.unwrap`, there in integers for integers.

    >>> unwrap(np.array([350, 10, 30]), period=360)
    Array([350., 370., 390.], dtype=float32)
    """
    p = to_array("unwrap", p)
    if dtypes.is_complex(typeof(p).dtype):
        raise ValueError("unwrap: expected real numbers")
    at = check_axis("unwrap", axis, len(typeof(p).shape))
    if isinstance(period, (int, float)):  # a plain number follows `p`, which becomes a float in any case
        p = to_inexact("unwrap", p)
    p, turn = promote_all("unwrap", [p, period])
    gap = diff(p, 1, at)
    half = turn / 2
    low = -half
    wrapped = remainder(gap - low, turn) + low
    wrapped = choose_by((wrapped == low) & (gap > 0), half, wrapped)
    limit = half if discont is None else discont
    fix = choose_by(abs(gap) < limit, 0 * gap, wrapped - gap)
    head, tail = split_at(p, [1], at)
    return concatenate([head, tail + cumsum(fix, at)], at)


@jitted_core("extended", "period", name="interp")
def _interp(x: Any, xp: Any, fp: Any, ends: Sequence[Any], extended: tuple[bool, bool], period: float | None) -> Any:
    d = dtypes.inexact_dtype_for(dtypes.promote((typeof(x).dtype, typeof(x).weak_type), (typeof(xp).dtype, False))[0])
    if dtypes.is_complex(d):
        raise TypeError(f"interp: x and xp must be real, since complex numbers have no order along a line; got "
                        f"{typeof(x).str_long()} and {typeof(xp).str_long()}")
    x, xp = cast(x, d), cast(xp, d)
    fp = to_inexact("interp", fp)
    own = typeof(fp).dtype
    if d.itemsize < 4 or own.itemsize < 4:
        x, xp, fp = (cast(v, work_dtype(typeof(v).dtype)) for v in (x, xp, fp))
        return cast(_interp(x, xp, fp, ends, extended, period), dtypes.promote((d, False), (own, False))[0])
    shape = typeof(xp).shape
    if len(shape) != 1 or typeof(fp).shape != shape or not shape[0]:
        raise ValueError(f"interp: xp and fp must have one axis of one length; got {shape} and {typeof(fp).shape}")
    n = shape[0]
    if period is not None:
        if not isinstance(period, (int, float, np.number)):
            raise TypeError(f"interp: period must be a number; got {type(period).__name__}: {period!r:.60}")
        if not period:
            raise ValueError("interp: period must not be 0")
        period = literal(np.abs(period), d)
        x, xp = remainder(x, period), remainder(xp, period)
        _, order = lax.sort([xp, arange(n)], 0)
        xp, fp = take(xp, order, 0, mode="clip"), take(fp, order, 0, mode="clip")
        # Closed round: the last point once more before the first, and the first behind the last.
        xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = concatenate([fp[-1:], fp, fp[:1]])
        n += 2
    whole = dtypes.canonical_int()
    at = lax.clamp(literal(1, whole), searchsorted(xp, x, side="right"), literal(max(n - 1, 1), whole))
    x0, x1 = take(xp, at - 1, 0, mode="clip"), take(xp, at, 0, mode="clip")
    y0, y1 = take(fp, at - 1, 0, mode="clip"), take(fp, at, 0, mode="clip")
    gap = x1 - x0
    # Two points on one place: the left value, with a gap of 1 so that derivatives meet no division by zero.
    flat = abs(gap) <= literal(float(np.spacing(np.float64(dtypes.finfo(d).eps))), d)
    out = choose_by(flat, y0, y0 + (x - x0) / choose_by(flat, literal(1, d), gap) * (y1 - y0))
    if period is None:
        for edge, outside, value, extends in zip((0, -1), (x < xp[0], x > xp[-1]), ends, extended):
            if not extends:
                out = choose_by(outside, fp[edge] if value is None else cast(value, typeof(fp).dtype), out)
    return out


def interp(x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: Any = None, right: Any = None,
           period: float | None = None) -> Array:
    """Piecewise linear interpolation between points.

    Args:
      x: real array of any shape, or a list: where to evaluate.
      xp: real coordinates `[n]`, ascending.
      fp: number array `[n]`: the values there.
      left, right: what to give below and above the coordinates: a number, None for the nearest of `fp`, or
        "extrapolate". Without meaning where there is a `period`.
      period: a number that `x` and `xp` are taken modulo of; `xp` may then be in any order. None for none.
    Returns:
      Float or complex array of the shape of `x`, in the units of `fp`; NaN where `x` is.
    Raises:
      ValueError: `xp` and `fp` have not one axis of one length, or none, `period` is 0, or `left` or `right` is
        another word.
      TypeError: `x` or `xp` is complex, or an argument is neither an array nor a number.

    Derivative: at a coordinate, that of the piece above it.
    Source: meaning of `numpy.interp`; "extrapolate" is an addition.

    >>> interp(1.5, np.array([1., 2.]), np.array([10., 20.]))
    Array(15., dtype=float32)
    """
    x, xp, fp = (asarray(v) if isinstance(v, (list, tuple)) else v for v in (x, xp, fp))
    extended = (isinstance(left, str), isinstance(right, str))
    for v in (left, right):
        if isinstance(v, str) and v != "extrapolate":
            raise ValueError(f"interp: left and right must be numbers or 'extrapolate'; got {v!r}")
    ends = tuple(None if extends else v for v, extends in zip((left, right), extended))
    return _interp(x, xp, fp, ends, extended=extended, period=to_hashable(period))
