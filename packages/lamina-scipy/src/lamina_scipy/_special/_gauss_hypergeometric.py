"""Compute Gauss's hypergeometric function of real numbers: by its power series, and by Taylor steps along its differential
equation where the series is slow or its terms cancel. Each method returns an error estimate."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import jvp
from lamina_ir import dtypes
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._util import call_real, define_by_forward, derivatives, guard, pick
from ._gammas import is_pole, compute_poch

__all__ = ["hyp2f1"]

_MOST_TERMS = 5000
_MOST_STEPS = 5000

_ENTRIES = docstring_entries("""
    TypeError: an argument is neither an array nor a number.
    DTypeError: an argument is complex.
    ShapeError: the shapes do not broadcast.
    """)


def _eps(x: Any) -> float:
    return float(dtypes.finfo(typeof(x).dtype).eps)


def _sum_series(a: Any, b: Any, c: Any, x: Any, floors: tuple[Any, Any] | None) -> tuple[Any, Any, Any]:
    """The power series, DLMF 15.2.1, which ends by itself where a or b is 0, -1, ...; x times its derivative; and how far off
    both may be, relative to the larger of them. A derivative in a or b does not end: for it terms count as if no factor were
    below those `floors`."""
    eps = _eps(x)

    def is_unfinished(state: Any) -> Any:
        k, term, total, _, _, size = state
        rising = k < lnp.maximum(lnp.maximum(-a, -b), -c)
        left = lnp.abs(term) if floors is None else size
        return (left > 0.1 * eps * lnp.abs(total)) | (rising & (term != 0))

    def is_any_unfinished(state: Any) -> Any:
        return lnp.logical_and(state[0] < _MOST_TERMS, lnp.any(is_unfinished(state)))

    def step(state: Any) -> Any:
        k, term, total, moment, peak, size = state
        over, under = (a + k) * (b + k) * x, (c + k) * (k + 1.0)
        none = under == 0
        safe = lnp.where(none, 1.0, under)
        term = lnp.where(none, lnp.where((term == 0) | (over == 0), 0.0, np.inf), term * (over / safe))
        if floors is not None:
            growth = lnp.maximum(lnp.abs(a + k), floors[0]) * lnp.maximum(lnp.abs(b + k), floors[1]) * lnp.abs(x / safe)
            size = lax.stop_gradient(size * growth)
        peak = lax.stop_gradient(lnp.maximum(peak, lnp.abs(term)))
        return k + 1.0, term, total + term, moment + (k + 1.0) * term, peak, size

    one = lnp.ones_like(x)
    state = lax.while_loop(is_any_unfinished, step,
                           (lnp.zeros((), typeof(x).dtype), one, one, lnp.zeros_like(x), one, one))
    _, _, total, moment, peak, _ = state
    bad = is_unfinished(state) | lnp.logical_not(lnp.isfinite(total + moment))
    scale = lnp.maximum(lnp.abs(total), lnp.abs(moment))
    off = eps * peak / lnp.where(scale > 0, scale, 1.0)
    return total, moment, lax.stop_gradient(lnp.where(bad | (scale == 0), np.inf, off))


def _step_taylor(a: Any, b: Any, c: Any, s: Any, h: Any, values: Any, rates: Any) -> tuple[Any, Any]:
    """Two solutions of the hypergeometric equation, DLMF 15.10.1, and their derivatives, a step h on from x = 1 - s."""
    x, lead = 1.0 - s, (c - a - b - 1.0) + (a + b + 1.0) * s

    def step(i: Any, state: Any) -> Any:
        own, after, total, moment = state  # terms k, k + 1
        k = lnp.astype(i, typeof(s).dtype)
        total, moment = total + after, moment + (k + 1.0) * after
        inner = (k + a) * (k + b) / (k + 1.0) * h * own - ((2.0 * s - 1.0) * k + lead) * after
        return after, h / x / s / (k + 2.0) * inner, total, moment

    state = (values, h * rates, values, lnp.zeros_like(values))
    total, moment = lax.fori_loop(0, pick(s, 22, 46), step, state)[2:]
    return total, moment / h


def _rate(a: Any, b: Any, c: Any, s: Any) -> Any:
    """How fast a solution of that equation may change."""
    under = (1.0 - s) * s
    lead, rest = ((c - a - b - 1.0) + (a + b + 1.0) * s) / under, a * b / under
    return lax.stop_gradient(0.5 * (lnp.abs(lead) + lnp.sqrt(lead * lead + 4.0 * lnp.abs(rest))) + 1e-3)


def _find_start(a: Any, b: Any, c: Any, end: Any, series: tuple[Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
    """Return where integration starts, as 1 - x, with the function, x times its derivative and the error.

    It starts at 1/2, where `series` is the power series, if that is good; else at a smaller x where its terms decrease
    from the first on."""
    limit = 0.5 * lnp.minimum(lnp.abs(c), 1.0 + lnp.abs(c)) / (1.0 + lnp.abs(a)) / (1.0 + lnp.abs(b))
    begin = lax.stop_gradient(lnp.maximum(1.0 - lnp.minimum(limit, 0.25), end))
    other = _sum_series(a, b, c, 1.0 - begin, (1.0, 1.0))
    good = (end < 0.5) & (series[2] < 30.0 * _eps(end))
    value, moment, off = (lnp.where(good, n, o) for n, o in zip(series, other))
    return lnp.where(good, 0.5, begin), value, moment, off


def _integrate_ode(needed: Any, a: Any, b: Any, c: Any, end: Any, series: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    """The function at x = 1 - end in (0, 1), from where the power series is good; and an error estimate, relative to the larger
    of it and its derivative. Errors go on as a second solution does that begins elsewhere."""
    eps = _eps(end)
    begin, value, moment, off = _find_start(a, b, c, end, series)
    x = 1.0 - begin
    rate = _rate(a, b, c, begin)

    def is_unfinished(state: Any) -> Any:
        return lnp.logical_and(state[0] < _MOST_STEPS, lnp.any(needed & (state[1] > end)))

    def step(state: Any) -> Any:
        i, s, u, du, v, dv, off = state
        going = needed & (s > end)
        rate = _rate(a, b, c, s)
        reach = lnp.minimum(lnp.minimum(0.4 * s, 0.4 * (1.0 - s)), 2.0 / rate)
        after = lax.stop_gradient(lnp.maximum(s - reach, end))
        h = guard(going, s - after, 1e-3)
        (u1, v1), (du1, dv1) = _step_taylor(a, b, c, s, h, lnp.stack([u, v]), lnp.stack([du, dv]))
        rate1 = _rate(a, b, c, after)
        size, size1, growth = (lax.stop_gradient(lnp.abs(f) + lnp.abs(df) / r) for f, df, r in (
            (u, du, rate), (u1, du1, rate1), (v1, dv1, rate1)))
        off1 = off * growth * (size / size1) + 2.0 * eps
        v1, dv1 = lax.stop_gradient(v1 / growth), lax.stop_gradient(dv1 / growth)
        new = (after, u1, du1, v1, dv1, off1)
        return i + 1, *(lnp.where(going, n, o) for n, o in zip(new, (s, u, du, v, dv, off)))

    state = (0, begin, value, moment / x, lnp.zeros_like(x), rate, lax.stop_gradient(off + eps))
    _, s, u, _, _, _, off = lax.while_loop(is_unfinished, step, state)
    return u, lax.stop_gradient(lnp.where((s > end) | lnp.isnan(u), np.inf, off))


def _compute_value(a: Any, b: Any, c: Any, x: Any, by: int | None = None) -> Any:
    """The function where c is no pole, in a form whose derivative in a, b or c (argument 0, 1 or 2, `by`) is that of its
    parts."""
    ends = (is_pole(a) & (by != 0)) | (is_pole(b) & (by != 1))
    swap = lax.stop_gradient((a > b) & lnp.logical_not(ends))
    p, q = lnp.where(swap, b, a), lnp.where(swap, a, b)
    # below 0 Pfaff's transformation, DLMF 15.8.1; near 1 Euler's, if the function grows there and the terms keep their signs
    left = (x < 0) & lnp.logical_not(ends & (x >= -0.5))
    turned = lnp.logical_not(left) & (x > 0) & (c - a - b < 0) & ((c - a >= 0) | (c - b < 0)) & lnp.logical_not(ends)
    turned = turned & ((c - b >= 0) | (c - a < 0))
    p1, q1 = lnp.where(turned, c - p, p), lnp.where(left | turned, c - q, q)
    y = lnp.where(left, x / (x - 1.0), x)
    s = lnp.where(left, 1.0 / (1.0 - x), 1.0 - x)
    log = lnp.log(guard(left | turned, 1.0 - x, 1.0))
    factor = lnp.exp(lnp.where(left, -p, lnp.where(turned, c - a - b, 0.0)) * log)
    short = lnp.abs(y) <= 0.6
    whole = ends & lnp.logical_not(left)  # a polynomial, at any x
    direct = short | whole
    slow = lnp.logical_not(direct) & (y > 0) & (s > 0)
    some = direct | slow
    floors = None if by is None else tuple(lnp.where(ends, float(by == i), 1.0) for i in range(2))
    series = _sum_series(guard(some, p1, 0.0), guard(some, q1, 1.0), guard(some, c, 1.0),
                         lnp.where(direct, y, lnp.where(slow, 0.5, 0.0)), floors)
    value, off = series[0], lnp.where(direct, series[2], np.inf)
    needed = (off > pick(x, 4e-6, 1e-14)) & (y > 0) & (s > 0)
    start = series[0], series[1], lnp.where(slow, series[2], np.inf)
    u, other = _integrate_ode(needed, guard(needed, p1, 1.5), guard(needed, q1, 1.5), guard(needed, c, 2.0),
                              guard(needed, s, 0.5), start)
    better = needed & lax.stop_gradient(other < off)
    value, off = lnp.where(better, u, value), lnp.where(better, other, off)
    value = lnp.where((off > pick(x, 1e-3, 1e-9)) & (x != 0), np.nan, value) * factor
    at_one = (x == 1) & lnp.logical_not(ends)
    sums = at_one & (c - a - b > 0)
    a1, b1, c1 = guard(sums, a, 0.5), guard(sums, b, 0.5), guard(sums, c, 2.0)
    limit = lnp.where(sums, compute_poch(c1 - a1, a1) * compute_poch(c1 - b1, -a1), np.inf)  # DLMF 15.4.20
    return lnp.where(at_one, limit, lnp.where((x > 1) & lnp.logical_not(ends), np.inf, value))


def _make_shape_derivative(place: int) -> Any:
    """The derivative in a, b or c (argument 0, 1 or 2)."""
    def first_derivative(a: Any, b: Any, c: Any, x: Any) -> Any:
        by = [lnp.ones_like(a) if i == place else lnp.zeros_like(a) for i in range(3)]
        pole = is_pole(c)
        out, derivative = jvp(lambda a, b, c: _compute_value(a, b, c, x, place),
                              (a, b, guard(lnp.logical_not(pole), c, 1.5)), tuple(by))
        return lnp.where(pole | lnp.logical_not(lnp.isfinite(out + a + b + c + x)), np.nan, derivative)
    return define_by_forward(first_derivative, 4)


_derivative_a, _derivative_b, _derivative_c = (_make_shape_derivative(i) for i in range(3))


@derivatives(lambda out, a, b, c, x: _derivative_a(a, b, c, x), lambda out, a, b, c, x: _derivative_b(a, b, c, x),
             lambda out, a, b, c, x: _derivative_c(a, b, c, x),
             lambda out, a, b, c, x: a * b / c * _hyp2f1(a + 1.0, b + 1.0, c + 1.0, x))
def _hyp2f1(a, b, c, x):
    pole = is_pole(c) & lnp.logical_not((is_pole(a) & (a >= c)) | (is_pole(b) & (b >= c)))
    value = lnp.where(pole, lnp.where(x == 0, 1.0, np.inf), _compute_value(a, b, guard(lnp.logical_not(pole), c, 1.0), x))
    return lnp.where(lnp.isnan(a + b + c + x), np.nan, value)


@public_api(entries=_ENTRIES)
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function, the sum of `(a)_k (b)_k x**k / ((c)_k k!)`.

    Args:
      a, b, c, x: real arrays that broadcast to each other; integers and booleans become float.
    Returns:
      Float array of the common shape; infinite where `c` is 0, -1, ... or `x` is above 1, unless the sum ends before. NaN
      where no method keeps three digits in float32, nine in float64.
    Raises: {TypeError, DTypeError, ShapeError}

    Derivative: `a b / c * hyp2f1(a + 1, b + 1, c + 1, x)` in x; in a, b and c that of the sum, NaN where `c` is 0, -1, ...
    Source: DLMF 15.2.1; below 0 by 15.8.1, at 1 by 15.4.20, near 1 by steps along 15.10.1.

    >>> hyp2f1(-1., 2., 4., np.array([0., 2.]))
    Array([1., 0.], dtype=float32)
    """
    return call_real("hyp2f1", _hyp2f1, a, b, c, x)
