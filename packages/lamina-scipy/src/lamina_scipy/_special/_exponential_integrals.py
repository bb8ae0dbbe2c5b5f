"""Exponential integrals and the dilogarithm."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import dtypes
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._util import SPECIAL, SPECIAL_PAIR, call_real, derivatives, guard, horner, pick, refuse_derivative
from ._binomial_deviance import compute_log1p

__all__ = ["exp1", "expi", "expn", "spence"]

_EULER = float(np.euler_gamma)
_MOST_TERMS = 2000


def _sum_terms(start: Any, step: Any, digits: float = 0.5) -> Any:
    """Adds terms, `step(k, *parts) -> (change, *parts)`, from k = 1 until all changes are below so many of the last digits;
    the first part is what the changes are measured by."""
    eps = float(dtypes.finfo(typeof(start[0]).dtype).eps)

    def is_unfinished(state: Any) -> Any:
        k, change, parts = state
        return lnp.logical_and(k < _MOST_TERMS, lnp.any(lnp.abs(change) > digits * eps * lnp.abs(parts[0])))

    def add_term(state: Any) -> Any:
        k, _, parts = state
        change, *parts = step(k, *parts)
        return k + 1.0, change, tuple(parts)

    one = lnp.ones((), typeof(start[0]).dtype)
    return lax.while_loop(is_unfinished, add_term, (one, lnp.full_like(start[0], np.inf), start))[2]


def _expn_fraction(n, x):
    """expn by its continued fraction, DLMF 8.19.17 in its even form, for x + n well above 1 (Lentz's method)."""
    b = x + n

    def step(k, h, b, c, d):
        a = -k * (n - 1.0 + k)
        b = b + 2.0
        d = 1.0 / (a * d + b)
        c = b + a / c
        return h * (c * d) - h, h * (c * d), b, c, d

    big = float(dtypes.finfo(typeof(x).dtype).max) ** 0.5
    h = 1.0 / b
    return _sum_terms((h, b, lnp.full_like(b, big), h), step, 4.0)[0] * lnp.exp(-x)


def _expn_series(n, x):
    """expn of x up to 2, DLMF 8.19.8."""
    m = n - 1.0
    with_log = -lnp.log(x) + lax.digamma(n)
    first = lnp.where(m == 0, with_log, 1.0 / guard(m != 0, m, 1.0))

    def step(k, total, factor):
        factor = -factor * x / k
        change = lnp.where(k == m, factor * with_log, -factor / guard(k != m, k - m, 1.0))
        return lnp.where(k <= m, 1.0, change), total + change, factor  # the logarithm's term is still to come

    return _sum_terms((first, lnp.ones_like(x)), step)[0]


def _expn_derivative(out, n, x):
    below = _expn(guard(n >= 1, n - 1.0, 0.0), guard(n >= 1, x, 1.0))
    y = guard(n == 0, x, 1.0)
    return lnp.where(n == 0, -lnp.exp(-y) * (1.0 + 1.0 / y) / y, -below)


@derivatives(refuse_derivative("expn", "n"), _expn_derivative)
def _expn(n, x):
    """The generalised exponential integral of arrays."""
    good = (n >= 1) & (n == lnp.floor(n)) & (x > 0) & (x < np.inf)
    low = x <= 2.0
    m = guard(good, n, 1.0)
    small = lnp.logical_and(low, m <= 20.0)
    series = _expn_series(guard(small, m, 1.0), guard(good & small, x, 0.5))
    fraction = _expn_fraction(lnp.where(small, 1.0, m), guard(good & lnp.logical_not(small), x, 2.0))
    value = lnp.where(small, series, fraction)
    value = lnp.where(n == 0, lnp.exp(-x) / x, value)
    value = lnp.where(x == 0, lnp.where(n > 1, 1.0 / guard(n > 1, n - 1.0, 1.0), np.inf), value)
    value = lnp.where(x == np.inf, 0.0, value)
    bad = lnp.isnan(n + x) | (n < 0) | (n != lnp.floor(n)) | (x < 0)
    return lnp.where(bad, np.nan, value)


def compute_exp1(x):
    """The exponential integral of an array."""
    return _expn(lnp.ones_like(x), x)


@derivatives(lambda out, x: out * (1.0 - 1.0 / x))
def _expi_derivative(x):
    """exp(x) / x, which overflows later than its dividend."""
    half = lnp.exp(0.5 * x)
    return lnp.where(x == np.inf, np.inf, half / x * half)


@derivatives(lambda out, x: _expi_derivative(x))
def _expi(x):
    left = x < 0
    edge = pick(x, 20.0, 40.0)
    near = lnp.logical_and(x > 0, x <= edge)
    far = x > edge
    y = guard(near, x, 1.0)

    def step(k, total, factor):
        factor = factor * y / k
        return factor / k, total + factor / k, factor

    series = _sum_terms((_EULER + lnp.log(y), lnp.ones_like(y)), step)[0]
    w = 1.0 / guard(far, x, 100.0)
    total = lnp.ones_like(w)
    for k in range(pick(x, 20, 40), 0, -1):  # DLMF 6.12.2, cut off where its terms are smallest
        total = 1.0 + k * w * total
    large = lnp.exp(0.5 * x) * w * total * lnp.exp(0.5 * x)
    value = lnp.where(left, -compute_exp1(guard(left, -x, 1.0)), lnp.where(near, series, large))
    return lnp.where(x == 0, -np.inf, lnp.where(x == np.inf, np.inf, lnp.where(lnp.isnan(x), x, value)))


# B(2k) / (2k + 1)!, from k = 12 down: Li2(1 - exp(-u)) is u - u**2 / 4 + u times the sum of these with u**(2k)
_DILOGARITHM = (-236364091 / 2730 / 15511210043330985984000000, 854513 / 138 / 25852016738884976640000,
                -174611 / 330 / 51090942171709440000, 43867 / 798 / 121645100408832000, -3617 / 510 / 355687428096000,
                7 / 6 / 1307674368000, -691 / 2730 / 6227020800, 5 / 66 / 39916800, -1 / 30 / 362880, 1 / 42 / 5040,
                -1 / 30 / 120, 1 / 6 / 6, 1.0)


def _li2(z):
    """The dilogarithm of z in [-1, 1/2], by powers of -log(1 - z)."""
    u = -compute_log1p(-z)
    return u * horner(u * u, _DILOGARITHM) - 0.25 * u * u


def _spence_derivative(out, x):
    w = x - 1.0
    close = lnp.abs(w) < 0.1  # wide enough for the derivative's own derivative
    series = horner(guard(close, w, 0.0), [(-1) ** k / (k + 1) for k in range(pick(x, 9, 18), -1, -1)])
    return lnp.where(close, -series, -lnp.log(x) / guard(lnp.logical_not(close), w, 1.0))


@derivatives(_spence_derivative)
def _spence(x):
    sixth = np.pi ** 2 / 6
    low, mid = x < 0.5, lnp.logical_and(x >= 0.5, x <= 2.0)
    small = guard(low & (x > 0), x, 0.25)
    by_zero = sixth - lnp.log(small) * compute_log1p(-small) - _li2(small)  # DLMF 25.12.6
    middle = _li2(1.0 - guard(mid, x, 1.0))
    large = guard((x > 2.0) & (x < np.inf), x, 4.0)
    inverse = 1.0 / large
    log = lnp.log(large)  # spence(x) = -log(x)**2 / 2 - spence(1 / x)
    by_inverse = -0.5 * log * log - (sixth + log * compute_log1p(-inverse) - _li2(inverse))
    value = lnp.where(mid, middle, lnp.where(low, by_zero, by_inverse))
    return lnp.where(x == 0, sixth, lnp.where(x == np.inf, -np.inf, lnp.where(x > 0, value, np.nan)))


@public_api(entries=SPECIAL)
def exp1(x: ArrayLike) -> Array:
    """The exponential integral: that of `exp(-t) / t` from x to infinity.

    Args: {x}
    Returns:
      Float array of the shape of `x`; infinite at 0, NaN below.
    Raises: {TypeError, DTypeError}

    Derivative: `-exp(-x) / x`.
    Source: DLMF 6.2.1.

    >>> exp1(np.array([0., 1., np.inf]))
    Array([       inf, 0.21938391, 0.        ], dtype=float32)
    """
    return call_real("exp1", compute_exp1, x)


@public_api(entries=SPECIAL)
def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei, the principal value of that of `exp(t) / t` from minus infinity to x.

    Args: {x}
    Returns:
      Float array of the shape of `x`; minus infinity at 0.
    Raises: {TypeError, DTypeError}

    Derivative: `exp(x) / x`.
    Source: DLMF 6.2.5; the sum 6.6.1, and 6.12.2 far out.

    >>> expi(np.array([0., 1.]))
    Array([     -inf, 1.8951178], dtype=float32)
    """
    return call_real("expi", _expi, x)


@public_api(entries=SPECIAL_PAIR)
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The integral of `exp(-x t) / t**n` over t from 1 to infinity.

    Args: {n, x}
    Returns:
      Float array of the common shape; NaN if x or n is negative or n is not an integer.
    Raises: {TypeError, DTypeError, ShapeError, NotImplementedError}

    Derivative: `-expn(n - 1, x)`.
    Source: DLMF 8.19.3, by 8.19.8 and 8.19.17.

    >>> expn(np.array([2, 3]), 0.)
    Array([1. , 0.5], dtype=float32)
    """
    return call_real("expn", _expn, n, x)


@public_api(entries=SPECIAL)
def spence(x: ArrayLike) -> Array:
    """The integral of `log(t) / (1 - t)` from 1 to x: the dilogarithm of `1 - x`.

    Args: {x}
    Returns:
      Float array of the shape of `x`; NaN below 0.
    Raises: {TypeError, DTypeError}

    Derivative: `log(x) / (1 - x)`, -1 at 1.
    Source: meaning of `scipy.special.spence`; DLMF 25.12, by powers of `-log(1 - z)` with Bernoulli's numbers.

    >>> spence(np.array([0., 1., 2.]))
    Array([ 1.6449341,  0.       , -0.8224671], dtype=float32)
    """
    return call_real("spence", _spence, x)
