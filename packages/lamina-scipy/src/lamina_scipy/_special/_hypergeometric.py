"""Compute Kummer's confluent hypergeometric function: by its power series, by its asymptotic expansion, by the recurrence of
polynomials, and by its differential equation if terms of both signs cancel. Each method returns an error estimate."""
from __future__ import annotations

import math
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import jvp
from lamina_ir import dtypes
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._util import call_real, define_by_forward, derivatives, guard, pick
from ._gammas import compute_gammaln, compute_gammasgn, is_pole

__all__ = ["hyp1f1"]

_MOST_TERMS = 5000
_MOST_STEPS = 5000
_HIGH, _LOW = 887 / 64, 20 * math.log(2) - 887 / 64  # of log(2^20): the first times a small whole number is exact


def _eps(x: Any) -> float:
    return float(dtypes.finfo(typeof(x).dtype).eps)


def _sum_series(first: Any, a: Any, b: Any, x: Any, derivative: bool) -> tuple[Any, Any, Any]:
    """`first` times the power series, DLMF 13.2.2, which ends by itself where a is 0, -1, ...; x times its
    derivative; and how far
    off both may be. A `derivative` in a does not end: for it terms count as if no factor were below 1."""
    eps = _eps(x)

    def is_unfinished(state: Any) -> Any:
        k, term, total, _, _, size = state
        rising = k < lnp.maximum(-a, -b)  # before the factors of a or b change their sign terms may grow again
        left = size if derivative else lnp.abs(term)
        return (left > 0.25 * eps * lnp.abs(total)) | (rising & (term != 0))

    def is_any_unfinished(state: Any) -> Any:
        return lnp.logical_and(state[0] < _MOST_TERMS, lnp.any(is_unfinished(state)))

    def step(state: Any) -> Any:
        k, term, total, moment, peak, size = state
        over, under = (a + k) * x, (b + k) * (k + 1.0)
        none = under == 0
        at_pole = lnp.where((term == 0) | (over == 0), 0.0, np.inf)
        safe = lnp.where(none, 1.0, under)
        term = lnp.where(none, at_pole, term * (over / safe))
        size = lax.stop_gradient(size * lnp.maximum(lnp.abs(a + k), 1.0) * lnp.abs(x / safe))
        peak = lax.stop_gradient(lnp.maximum(peak, lnp.abs(term)))
        return k + 1.0, term, total + term, moment + (k + 1.0) * term, peak, size

    state = lax.while_loop(is_any_unfinished, step,
                           (lnp.zeros((), typeof(x).dtype), first, first, lnp.zeros_like(x), first, first))
    _, term, total, moment, peak, _ = state
    return total, moment, lnp.where(is_unfinished(state) | lnp.logical_not(lnp.isfinite(total + moment)), np.inf,
                                    eps * peak)


def _sum_asymptotic(p: Any, q: Any, x: Any) -> Any:
    """The sum of (p)_k (q)_k / (k! x^k), each element up to its smallest term."""
    def step(i: Any, state: Any) -> Any:
        term, total = state
        k = lnp.astype(i, typeof(x).dtype)
        next_term = term * (p + k) * (q + k) / (k + 1.0) / x
        term = lnp.where(lnp.abs(next_term) <= lnp.abs(term), next_term, 0.0)
        return term, total + term

    one = lnp.ones_like(x)
    return lax.fori_loop(0, pick(x, 20, 40), step, (one, one))[1]


def _evaluate_polynomial(first: Any, n: Any, b: Any, x: Any) -> Any:
    """`first` times the function of a = -n: from those of 0 and -1 by DLMF 13.3.1, which is steady for positive b and x."""
    def step(i: Any, state: Any) -> Any:
        before, value = state
        k = lnp.astype(i, typeof(x).dtype)
        next_value = ((b + 2.0 * k - x) * value - k * before) / (b + k)
        return lnp.where(k < n, value, before), lnp.where(k < n, next_value, value)

    most = lnp.astype(lnp.max(n, initial=0.0), np.int32)
    return lax.fori_loop(0, most, step, (lnp.zeros_like(x), first))[1]


def _step_taylor(p: Any, b: Any, x: Any, h: Any, values: Any, derivatives: Any) -> tuple[Any, Any]:
    """Two solutions of x u'' + b u' = (x / 4 + p - b / 2) u and their derivatives, a step h on."""
    q = 0.25 * x + p - 0.5 * b

    def step(i: Any, state: Any) -> Any:
        before, own, after, total, moment = state  # terms k - 1, k, k + 1
        k = lnp.astype(i, typeof(x).dtype)
        total, moment = total + after, moment + (k + 1.0) * after
        next_term = (h / x) * (h * (q * own + 0.25 * h * before) / (k + 1.0) - (k + b) * after) / (k + 2.0)
        return own, after, next_term, total, moment

    state = (lnp.zeros_like(values), values, h * derivatives, values, lnp.zeros_like(values))
    total, moment = lax.fori_loop(0, pick(x, 18, 36), step, state)[3:]
    return total, moment / h


def _rate(p: Any, b: Any, x: Any) -> Any:
    """How fast a solution of that equation may change."""
    return lax.stop_gradient(0.5 * (lnp.abs(b) + lnp.sqrt(b * b + 4.0 * x * lnp.abs(0.25 * x + p - 0.5 * b))) / x + 1e-3)


def _integrate_ode(needed: Any, p: Any, b: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return u = exp(-y / 2) M(p, b, y) as a number and a power of 2^20, and an error estimate.

    The differential equation (of DLMF 13.2.1) is integrated from where the powers are good. The estimate is relative
    to the larger of u and its derivative. Errors grow as a second solution does that begins elsewhere, and is scaled
    to size 1 at each step."""
    eps = _eps(y)
    start = lax.stop_gradient(lnp.minimum(0.5 * lnp.minimum(lnp.abs(b), 1.0 + lnp.abs(b)) / (1.0 + lnp.abs(p)), y))
    value, moment, off = _sum_series(lnp.ones_like(y), p, b, start, True)
    down = lnp.exp(-0.5 * start)
    rate = _rate(p, b, start)
    u, du = down * value, down * (moment / start - 0.5 * value)
    v, dv = lnp.zeros_like(y), rate  # of size 1

    def is_unfinished(state: Any) -> Any:
        i, x = state[:2]
        return lnp.logical_and(i < _MOST_STEPS, lnp.any(needed & (x < y)))

    def step(state: Any) -> Any:
        i, x, u, du, v, dv, off, count = state
        going = needed & (x < y)
        rate = _rate(p, b, x)
        end = lax.stop_gradient(lnp.minimum(x + lnp.minimum(0.25 * x, 2.0 / rate), y))
        h = guard(going, end - x, 1e-3 * start)
        (u1, v1), (du1, dv1) = _step_taylor(p, b, x, h, lnp.stack([u, v]), lnp.stack([du, dv]))
        rate1 = _rate(p, b, end)
        size, size1, growth = (lax.stop_gradient(lnp.abs(f) + lnp.abs(derivative) / r) for f, derivative, r in (
            (u, du, rate), (u1, du1, rate1), (v1, dv1, rate1)))
        off1 = off * growth * (size / size1) + 2.0 * eps
        move = lnp.where(size1 > 2.0 ** 20, 1.0, lnp.where(size1 < 2.0 ** -20, -1.0, 0.0))
        scale = lnp.where(move == 0, 1.0, lnp.where(move > 0, 2.0 ** -20, 2.0 ** 20))
        v1, dv1 = lax.stop_gradient(v1 / growth), lax.stop_gradient(dv1 / growth)
        new = (end, u1 * scale, du1 * scale, v1, dv1, off1, count + move)
        return i + 1, *(lnp.where(going, n, o) for n, o in zip(new, (x, u, du, v, dv, off, count)))

    begin = lax.stop_gradient(off * down / (lnp.abs(u) + lnp.abs(du) / rate) + eps)
    state = (0, start, u, du, v, dv, begin, lnp.zeros_like(y))
    _, x, u, _, _, _, off, count = lax.while_loop(is_unfinished, step, state)
    return u, count, lnp.where((x < y) | lnp.isnan(u), np.inf, off)


def _compute_value(a: Any, b: Any, x: Any, by: int | None = None) -> Any:
    """The function where b is no pole, in a form whose derivative in a or b (argument 0 or 1, `by`) is that of its parts."""
    left = x < 0
    p = lnp.where(left, b - a, a)  # Kummer's transformation, DLMF 13.2.39
    y = lnp.abs(x)
    spread = (1.0 + lnp.abs(1.0 - p)) * (1.0 + lnp.abs(b - p))
    far = (y > pick(x, 30.0, 60.0)) & (y > 2.0 * spread) & lnp.logical_not(is_pole(p))
    near = lnp.logical_not(far) & (y < np.inf)
    # powers: of x itself where a is 0, -1, ..., a polynomial
    ends = is_pole(a) & (by != 0)  # elsewhere at a pole of b the function is undefined
    turned = left & lnp.logical_not(ends)
    most = pick(x, 80.0, 600.0)
    part = lnp.where(turned, lnp.minimum(y, most), 0.0)  # what of the transformation's factor is taken before, what after
    terms = _sum_series(lnp.exp(-part), guard(near, lnp.where(ends, a, p), 1.0), guard(near, b, 1.0),
                        guard(near, lnp.where(ends, x, y), 0.0), by is not None)
    value, moment, off = terms
    after = lnp.where(turned, lnp.exp(part - y), 1.0)
    scale = lnp.maximum(lnp.abs(value), lnp.abs(moment))
    off = lax.stop_gradient(lnp.where((scale > 0) & (off < np.inf), off / scale, np.inf))
    value = after * value
    if by != 0:  # the first argument is a whole number below zero, which it must stay where b moves
        n = -lnp.where(ends, a, p)
        whole = near & is_pole(-n) & (n < _MOST_TERMS) & (b > 0) & (off > 4 * _eps(x))
        whole = whole & lnp.where(ends, x > 0, left & (by is None))
        value = lnp.where(whole,
                          after * _evaluate_polynomial(lnp.exp(-part), guard(whole, n, 0.0), guard(whole, b, 1.0),
                                                              guard(whole, y, 1.0)), value)
        off = lnp.where(whole, 0.0, off)
    needed = near & (off > pick(x, 4e-6, 1e-14)) & (y > 0)
    u, count, other = _integrate_ode(needed, guard(needed, p, 1.5), guard(needed, b, 2.0), guard(needed, y, 1.0))
    half = lnp.exp(0.5 * ((0.5 * x + count * _HIGH) + count * _LOW))
    better = needed & lax.stop_gradient(other < off)
    value = lnp.where(better, half * u * half, value)
    off = lnp.where(better, other, off)
    value = lnp.where(near & (off > pick(x, 1e-3, 1e-9)) & (x != 0), np.nan, value)
    z = guard(far, y, 100.0)
    p, c = guard(far, p, 1.5), guard(far, b, 2.0)
    size = compute_gammaln(c) - compute_gammaln(p) + (p - c) * lnp.log(z)
    sign = lax.stop_gradient(compute_gammasgn(c) * compute_gammasgn(p))
    half = lnp.exp(0.5 * (size + lnp.where(left, 0.0, z)))
    value = lnp.where(far, sign * half * _sum_asymptotic(1.0 - p, c - p, z) * half, value)
    odd = lnp.remainder(a, 2.0) != 0
    top = lnp.where(odd & (x > 0), -np.inf, np.inf) * lax.stop_gradient(compute_gammasgn(b) * compute_gammasgn(b - a))
    at_end = lnp.where(ends, lnp.where(a == 0, 1.0, top), 0.0)
    return lnp.where((y == np.inf) & (ends | is_pole(lnp.where(left, b - a, a))), at_end, value)


def _make_shape_derivative(place: int) -> Any:
    """The derivative in a or b (argument 0 or 1)."""
    def first_derivative(a: Any, b: Any, x: Any) -> Any:
        by = [lnp.ones_like(a) if i == place else lnp.zeros_like(a) for i in range(2)]
        pole = is_pole(b)
        out, derivative = jvp(lambda a, b: _compute_value(a, b, x, place), (a, guard(lnp.logical_not(pole), b, 1.5)),
                              tuple(by))
        return lnp.where(pole | lnp.isnan(out + a + b + x), np.nan, derivative)

    def make_second_derivative(i: int) -> Any:
        def derivative(out: Any, *args: Any) -> Any:
            bend = jvp(lambda s: first_derivative(*(s if k == i else x for k, x in enumerate(args))), (args[i],),
                       (lnp.ones_like(out),))[1]
            return lnp.where(lnp.isnan(out), np.nan, bend)
        return define_by_forward(derivative, 4)

    def mixed_derivative(out: Any, a: Any, b: Any, x: Any) -> Any:  # of the derivative in x
        own, other = _hyp1f1(a + 1.0, b + 1.0, x), derivative(a + 1.0, b + 1.0, x)
        return own / b + a / b * other if place == 0 else a / b * (other - own / b)
    derivative = derivatives(make_second_derivative(0), make_second_derivative(1), mixed_derivative)(first_derivative)
    return derivative


_derivative_a, _derivative_b = _make_shape_derivative(0), _make_shape_derivative(1)


@derivatives(lambda out, a, b, x: _derivative_a(a, b, x), lambda out, a, b, x: _derivative_b(a, b, x),
        lambda out, a, b, x: a / b * _hyp1f1(a + 1.0, b + 1.0, x))
def _hyp1f1(a, b, x):
    pole = is_pole(b) & lnp.logical_not(is_pole(a) & (a >= b))
    value = lnp.where(pole, lnp.where(x == 0, 1.0, np.inf), _compute_value(a, guard(lnp.logical_not(pole), b, 1.0), x))
    return lnp.where(lnp.isnan(a + b + x), np.nan, value)


@public_api()
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function, the sum of `(a)_k x**k / ((b)_k k!)`.

    Args:
      a, b, x: real arrays that broadcast to each other; integers and booleans become float.
    Returns:
      Float array of the common shape; infinite where b is 0, -1, ... unless the sum ends before. NaN where no method
      keeps three digits in float32, nine in float64 (of the larger of it and `x` times its derivative). Examples are
      some negative `b` with an `a` and an `x` of tens, and arguments of thousands.
    Raises:
      TypeError: an argument is neither an array nor a number.
      DTypeError: an argument is complex.
      ShapeError: the shapes do not broadcast.

    Derivative: `a / b * hyp1f1(a + 1, b + 1, x)` in x; in a and b that of the sum, NaN where b is 0, -1, ...
    Source: DLMF 13.2.2; negative x by 13.2.39, large ones by 13.7.2; polynomials by 13.3.1; where terms of both signs meet
      by steps along 13.2.1.

    >>> hyp1f1(1., np.array([1., 2.]), 1.)
    Array([2.7182817, 1.7182817], dtype=float32)
    """
    return call_real("hyp1f1", _hyp1f1, a, b, x)
