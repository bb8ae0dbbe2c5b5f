"""Zeta functions, the derivatives of digamma, and Bernoulli's numbers."""
from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import jvp
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._util import SPECIAL_PAIR, call_real, check_whole_number, derivatives, guard, pick, refuse_derivative

__all__ = ["bernoulli", "polygamma", "zeta"]

_MOST_BELOW = 100000  # how far q may be below zero

# B(2k) / (2k)!, k from 1: what the sum by Euler and Maclaurin takes
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
              -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000)
_FIRST = 12  # so many terms are added one by one before


def zeta_of_whole(k: int) -> float:
    """Riemann's zeta of a whole number above 1."""
    n = float(_FIRST)
    total, rising, power = n ** (1 - k) / (k - 1) + 0.5 * n ** -k, float(k), n ** (-k - 1)
    for i, b in enumerate(_BERNOULLI):
        total += b * rising * power
        rising *= (k + 2 * i + 1) * (k + 2 * i + 2)
        power /= n * n
    return total + sum(j ** -float(k) for j in range(_FIRST - 1, 0, -1))


def _sum_hurwitz(x, q):
    """Hurwitz zeta by Euler and Maclaurin, DLMF 25.11.5: for x other than 1, left of it too."""
    total = lnp.zeros_like(x)
    for j in range(_FIRST):
        total = total + lnp.power(q + float(j), -x)
    small = x < pick(x, 60.0, 1e6)  # beyond, the rest is negligible compared with the first terms, and its factors overflow
    x, w = guard(small, x, 2.0), q + float(_FIRST)
    power = lnp.power(w, -x)
    tail, rising, power_k = lnp.power(w, 1.0 - x) / (x - 1.0) + 0.5 * power, x, power / w
    for i, b in enumerate(_BERNOULLI):
        tail = tail + b * rising * power_k
        rising = rising * (x + (2 * i + 1.0)) * (x + (2 * i + 2.0))
        power_k = power_k / w / w
    return total + lnp.where(small, tail, 0.0)


def _derivative_x(out, x, q):
    """The derivative in x, of the sum that gives all orders of it."""
    good = lnp.logical_and(x > 1, q > 0)
    y, p = guard(good, x, 2.0), guard(good, q, 1.0)
    derivative = jvp(lambda v: _sum_hurwitz(v, p), (y,), (lnp.ones_like(y),))[1]
    return lnp.where(good, derivative, np.nan)


@derivatives(_derivative_x, lambda out, x, q: -x * _hurwitz(x + 1.0, q))
def _hurwitz(x, q):
    """Of arrays; left of q = 0 for whole x, term by term."""
    left = (q < 0) & (q != lnp.floor(q)) & (x == lnp.floor(x)) & (q > -_MOST_BELOW) & (x > 1)
    y = guard(left, x, 2.0)

    def step(state: Any) -> Any:
        p, total = state
        return lnp.where(p < 0, p + 1.0, p), total + lnp.where(p < 0, lnp.power(p, -y), 0.0)

    p, total = lax.while_loop(lambda state: lnp.any(state[0] < 0), step, (guard(left, q, 1.0), lnp.zeros_like(q)))
    pole = (q <= 0) & (q == lnp.floor(q)) & (x > 1)
    outside = (q < 0) & lnp.logical_not(left | pole)
    value = total + lax.zeta(lnp.where(left, y, x), lnp.where(left, p, guard(q > 0, q, 1.0)))
    far = (q > pick(q, 1e4, 1e9)) & (q < np.inf) & (x > 1)  # where (k + q)**-x may be less than what the dtype holds
    y, p = guard(far & (x < np.inf), x, 2.0), guard(far, q, 1e9)
    value = lnp.where(far, lnp.power(p, 1.0 - y) * (1.0 / (y - 1.0) + 0.5 / p), value)
    value = lnp.where(x == np.inf, lnp.where(q > 1, 0.0, lnp.where(q == 1, 1.0, np.inf)), value)
    value = lnp.where(pole | (x == 1), np.inf, lnp.where(outside, np.nan, value))
    return lnp.where(lnp.isnan(x) | lnp.isnan(q), np.nan, value)


def _riemann(x):
    left = x < -0.1
    y = lnp.where(left, 1.0 - x, x)
    value = _sum_hurwitz(guard((y != 1) & (y < np.inf), y, 2.0), lnp.ones_like(y))
    # zeta(x) = 2^x pi^(x - 1) sin(pi x / 2) gamma(1 - x) zeta(1 - x), DLMF 25.4.1
    z = guard(left, x, 0.0)
    size = lnp.exp(z * math.log(2.0) + (z - 1.0) * math.log(math.pi) + lax.lgamma(1.0 - z))
    # in [-2, 2], where the sine is folded: exact zeros at even whole numbers, with derivatives
    r = z - 4.0 * lnp.round(0.25 * z)
    turn = lnp.sin(0.5 * np.pi * lnp.where(r > 1, 2.0 - r, lnp.where(r < -1, -2.0 - r, r)))
    none = left & (turn == 0) & (size == np.inf)
    out = lnp.where(left, lnp.where(none, 0.0, size * lnp.where(none, 1.0, turn) * value), value)
    out = lnp.where(x == np.inf, 1.0, lnp.where((x == -np.inf) | lnp.isnan(x), np.nan, out))
    return lnp.where(x == 1, 1.0 / guard(x == 1, x - 1.0, 1.0), out)


@public_api()
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The sum of `(k + q)**-x` over k from 0: Hurwitz' zeta function, Riemann's without q.

    Args:
      x: real array; integers and booleans become float.
      q: real array that broadcasts with `x`; None for Riemann's function, which is defined below x = 1 too.
    Returns:
      Float array of the common shape; with q NaN where x is below 1, infinite at x = 1 and where a term is.
    Raises:
      TypeError: an argument is neither an array nor a number.
      DTypeError: an argument is complex.
      ShapeError: the shapes do not broadcast.

    Derivative: in x minus the sum of `log(k + q) (k + q)**-x`; in q `-x zeta(x + 1, q)`.
    Source: DLMF 25.11.1 and 25.2.1; below 0 by reflection, 25.4.1; derivatives in x by 25.11.5.

    >>> zeta(np.array([2., 3.]), 1.)
    Array([1.6449341, 1.2020569], dtype=float32)
    >>> zeta(np.array([2., -1.]))
    Array([ 1.6449341 , -0.08333333], dtype=float32)
    """
    return call_real("zeta", _riemann, x) if q is None else call_real("zeta", _hurwitz, x, q)


@derivatives(lambda out, x: _hurwitz(2.0 * lnp.ones_like(x), x))
def compute_digamma(x):
    """The logarithmic derivative of gamma; at zero infinite, of the sign opposite to the zero's."""
    return lnp.where(x == 0, -1.0 / guard(x == 0, x, 1.0), lax.digamma(guard(x != 0, x, 1.0)))


def _high_order(n, x):
    """n! zeta(n + 1, x) of positive x, where a factor is more or less than the dtype holds: by its first term's logarithm, and
    the sum over it as in `_sum_hurwitz`."""
    s, w = n + 1.0, x + float(_FIRST)
    total = lnp.ones_like(x)
    for j in range(1, _FIRST):
        total = total + lnp.power(x / (x + float(j)), s)
    some = s * _FIRST < 40.0 * w  # beyond, the rest is negligible compared with the first term
    t = guard(some, s, 2.0)
    rest, part = w / (t - 1.0) + 0.5, t / w
    for i, b in enumerate(_BERNOULLI):
        rest = rest + b * part
        part = part * ((t + (2 * i + 1.0)) / w) * ((t + (2 * i + 2.0)) / w)
    total = total + lnp.where(some, lnp.power(x / w, t) * rest, 0.0)
    return lnp.exp(lax.lgamma(s) - s * lnp.log(x) + lnp.log(total))


@derivatives(refuse_derivative("polygamma", "n"), lambda out, n, x: _polygamma(n + 1.0, x))
def _polygamma(n, x):
    whole = lnp.logical_and(n >= 0, n == lnp.floor(n))
    m = guard(whole, n, 1.0)
    order = lnp.maximum(m, 1.0)
    right = x > 0
    sign = 2.0 * lnp.remainder(order, 2.0) - 1.0
    left = sign * lnp.exp(lax.lgamma(order + 1.0)) * _hurwitz(order + 1.0, guard(lnp.logical_not(right), x, 1.0))
    value = lnp.where(right, lax.polygamma(order, guard(right, x, 1.0)), left)
    size = (order + 1.0) * lnp.abs(lnp.log(guard(right, x, 1.0)))
    far = (order > pick(x, 30.0, 165.0)) | (size > pick(x, 80.0, 690.0))
    far = far & right & (x < np.inf) & (order < np.inf)
    value = lnp.where(far, sign * _high_order(guard(far, order, 1.0), guard(far, x, 1.0)), value)
    return lnp.where(whole, lnp.where(m == 0, compute_digamma(x), value), np.nan)


@public_api(entries=SPECIAL_PAIR)
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma.

    Args: {n, x}
    Returns:
      Float array of the common shape; NaN if n is negative or not an integer.
    Raises: {TypeError, DTypeError, ShapeError, NotImplementedError}

    Derivative: `polygamma(n + 1, x)`.
    Source: DLMF 5.15.

    >>> polygamma(np.array([0, 1]), 1.)
    Array([-0.5772155,  1.6449338], dtype=float32)
    """
    return call_real("polygamma", _polygamma, n, x)


@public_api("n")
def bernoulli(n: int) -> Array:
    """Bernoulli's numbers from the 0th to the n-th.

    Args:
      n: a known int, none below 0.
    Returns:
      Float array of length `n + 1`; the second is -1/2. Those too large for the dtype are infinite, of their sign.
    Raises:
      TypeError: `n` is traced, or no whole number.
      ValueError: `n` is negative.

    Source: DLMF 24.2.1, exact fractions by way of tangent numbers (Brent and Harvey, "Fast computation of Bernoulli,
      tangent and secant numbers", 2011).

    >>> bernoulli(4)
    Array([ 1.        , -0.5       ,  0.16666667,  0.        , -0.03333333], dtype=float32)
    """
    count = check_whole_number("bernoulli", "n", n)
    half = count // 2
    tangents = [0, *(math.factorial(k - 1) for k in range(1, half + 1))]
    for k in range(2, half + 1):
        for j in range(k, half + 1):
            tangents[j] = (j - k) * tangents[j - 1] + (j - k + 2) * tangents[j]
    values = [1.0, -0.5] + [0.0] * (2 * half)
    for k in range(1, half + 1):
        exact = Fraction((-1) ** (k - 1) * 2 * k * tangents[k], 4 ** k * (4 ** k - 1))
        try:
            values[2 * k] = float(exact)
        except OverflowError:
            values[2 * k] = math.inf if exact > 0 else -math.inf
    with np.errstate(over="ignore"):
        return lnp.asarray(np.array(values[:count + 1]).astype(typeof(lnp.zeros(())).dtype))
