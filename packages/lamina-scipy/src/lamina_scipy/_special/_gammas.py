"""The gamma function, its logarithm, and what is made of them: factorials, ratios, several dimensions."""
from __future__ import annotations

import math

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import jvp
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._util import SPECIAL, call_real, check_whole_number, derivatives, guard, horner, pick, to_floats
from ._log_gamma import DIGAMMA, STIRLING, gammaln_float32
from ._zetas import compute_digamma, zeta_of_whole

__all__ = ["digamma", "factorial", "gamma", "gammaln", "gammasgn", "multigammaln", "poch"]

# Cephes, gamma.c: gamma(2 + x) on [0, 1] as P / Q, from the highest power down.
_P = (1.60119522476751861407e-4, 1.19135147006586384913e-3, 1.04213797561761569935e-2, 4.76367800457137231464e-2,
      2.07448227648435975150e-1, 4.94214826801497100753e-1, 9.99999999999999996796e-1)
_Q = (-2.31581873324120129819e-5, 5.39605580493303397842e-4, -4.45641913851797240494e-3, 1.18139785222060435552e-2,
      3.58236398605498653373e-2, -2.34591795718243348568e-1, 7.14304917030273074085e-2, 1.0)
# log gamma(1 + z) is -euler z + sum over k of zeta(k) (-z)^k / k, DLMF 5.7.3
NEAR_ONE = tuple((-1) ** k * zeta_of_whole(k) / k for k in range(44, 1, -1)) + (-float(np.euler_gamma), 0.0)
_LOG_PI = math.log(math.pi)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def is_pole(x):
    """Whether x is 0, -1, -2, ..., where gamma has its poles."""
    return lnp.logical_and(x <= 0, x == lnp.floor(x))


def sign_of_pole(x):
    """1 at even, -1 at odd whole numbers."""
    return 1.0 - 2.0 * lnp.abs(lnp.remainder(x, 2.0))


def stirling(x):
    """What Stirling's formula lacks: log gamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2, for x of 8 and more."""
    return horner(1.0 / x / x, STIRLING) / x


def sin_pi(x):
    """sin(pi x), exact at multiples of 1/2."""
    r = x - 2.0 * lnp.round(0.5 * x)  # in [-1, 1]
    return lnp.sin(np.pi * lnp.where(r > 0.5, 1.0 - r, lnp.where(r < -0.5, -1.0 - r, r)))


def _positive_gamma(x):
    """gamma of x from 0.5 up: by products on [2, 3] below 11, above by Stirling's formula."""
    y, product = lnp.minimum(x, 11.0), lnp.ones_like(x)
    for _ in range(8):
        high = y >= 3.0
        y = lnp.where(high, y - 1.0, y)
        product = product * lnp.where(high, y, 1.0)
    for _ in range(2):
        low = y < 2.0
        product = product / lnp.where(low, y, 1.0)
        y = lnp.where(low, y + 1.0, y)
    small = product * horner(y - 2.0, _P) / horner(y - 2.0, _Q)
    big = lnp.maximum(x, 11.0)
    root = lnp.power(big, 0.5 * big - 0.25)  # the whole power would overflow early
    large = math.sqrt(2 * math.pi) * root * lnp.exp(-big) * root * lnp.exp(stirling(big))
    top = pick(x, 35.5, 171.7)
    return lnp.where(x < 11.0, small, lnp.where(x < top, large, lnp.where(lnp.isnan(x), x, np.inf)))


@derivatives(lambda out, x: out * compute_digamma(x))
def compute_gamma(x):
    """The gamma function of an array."""
    right = x >= 0.5
    y = lnp.where(right, x, 1.0 - x)
    value = _positive_gamma(y)
    reflected = np.pi / (sin_pi(x) * value)
    out = lnp.where(right, value, lnp.where(lnp.isinf(value), 0.0 * sin_pi(x), reflected))
    out = lnp.where(lnp.abs(x) < pick(x, 1e-30, 1e-290), 1.0 / x, out)
    bad = lnp.logical_or(lnp.logical_and(is_pole(x), x < 0), x == -np.inf)
    return lnp.where(bad, np.nan, lnp.where(lnp.isnan(x), x, out))


def gammaln_after_one(z):
    """log gamma(1 + z), z small."""
    return horner(z, pick(z, NEAR_ONE[22:], NEAR_ONE))


def expm1_quotient(h):
    """(exp(h) - 1) / h, whose derivatives keep their digits at 0."""
    near = lnp.abs(h) < 0.5
    series = horner(guard(near, h, 0.0), [1.0 / math.factorial(k + 1) for k in range(13, -1, -1)])
    h = guard(lnp.logical_not(near), h, 1.0)
    return lnp.where(near, series, lnp.expm1(h) / h)


def gamma_above_small(a, x):
    """The share of the gamma integral above x, over a, for a below 0.5 and x from 0 to 1.1, by a difference taken before its
    parts are rounded: DLMF 8.7.1."""
    total, term = lnp.zeros_like(x), lnp.ones_like(x)
    for k in range(1, pick(x, 13, 22)):
        term = -term * x / k
        total = total + term / (a + k)
    level = lnp.log(x) - horner(a, pick(x, NEAR_ONE[22:-1], NEAR_ONE[:-1]))
    return -level * expm1_quotient(a * level) - lnp.exp(a * level) * total


@derivatives(lambda out, x: compute_digamma(x))
def compute_gammaln(x):
    """log |gamma| of an array; in float64 near its zeros 1 and 2 by a series that keeps the digits."""
    if typeof(x).dtype == np.float32:
        return gammaln_float32(x)
    one, two = lnp.abs(x - 1.0) < 0.3, lnp.abs(x - 2.0) < 0.3
    z = lnp.where(one, x - 1.0, lnp.where(two, x - 2.0, 0.0))
    series = gammaln_after_one(z)
    return lnp.where(one, series, lnp.where(two, lnp.log1p(z) + series, lax.lgamma(x)))


def compute_gammasgn(x):
    """The sign of gamma of an array."""
    negative = lnp.where(lnp.remainder(lnp.floor(x), 2.0) == 0, 1.0, -1.0)
    value = lnp.where(x == 0, lnp.copysign(lnp.ones_like(x), x), lnp.where(is_pole(x), np.nan, negative))
    value = lnp.where(x > 0, 1.0, value)
    return lnp.where(lnp.isnan(x), x, value)


def log_ratio(x, m):
    """log(gamma(x + m) / gamma(x)) where x and x + m are 8 and more, without the loss of a difference of large logarithms."""
    shift = m / x
    return (x + m - 0.5) * lnp.log1p(shift) + m * (lnp.log(x) - 1.0) + (stirling(x + m) - stirling(x))


@derivatives(lambda out, x, h: jvp(lambda x: _digamma_step(x, h), (x,), (lnp.ones_like(x),))[1],
        lambda out, x, h: jvp(compute_digamma, (x + h,), (lnp.ones_like(h),))[1])
def digamma_step(x, h):
    """digamma(x + h) - digamma(x) of arrays of one shape, to full precision even if h is much smaller than x."""
    return _digamma_step(x, h)


def _digamma_step(x, h):
    """By recurrence (DLMF 5.5.2) up from x, then the expansion 5.11.2, of whose powers the difference of two is taken as a
    product; left of 0 by reflection, 5.5.4, of whose cotangents it is one."""
    plain = compute_digamma(x + h) - compute_digamma(x)
    left = (x < 0) & (x + h < 0) & lnp.logical_not(is_pole(x) | is_pole(x + h))
    sines = guard(left, sin_pi(x + h) * sin_pi(x), 1.0)
    turned = lnp.where(left, np.pi * sin_pi(h) / sines, 0.0)
    good = left | ((x > 0) & (x + h > 0) & (x + h < np.inf))
    x, h = guard(good, lnp.where(left, 1.0 - x, x), 1.0), guard(good, lnp.where(left, -h, h), 1.0)
    v, rest = _digamma_rest(x, h)
    return lnp.where(good, turned + (h * rest + lnp.log1p(h * v)), plain)


def _digamma_rest(x, h):
    """For positive x and x + h a number v, and what digamma(x + h) - digamma(x) is more than log(1 + h v), over h."""
    total, steps = lnp.zeros_like(x), pick(x, 4, 9)
    for k in range(steps):
        total = total + 1.0 / (x + float(k)) / (x + h + float(k))
    v, w = 1.0 / (x + float(steps)), 1.0 / (x + h + float(steps))
    value, quotient = lnp.zeros_like(x), lnp.zeros_like(x)
    for c in (*DIGAMMA[pick(x, 4, 0):], 0.0):  # a polynomial in v**2, and the quotient of its differences to that in w**2
        value, quotient = value * v * v - c, quotient * w * w + value
    return v, total + v * w * (0.5 + (v + w) * quotient)


def digamma_quotient(x, h):
    """(digamma(x + h) - digamma(x)) / h of small h, whose derivatives keep their digits; left of 0 as `_digamma_step`."""
    left = x < 0
    sines = guard(left, sin_pi(x + h) * sin_pi(x), 1.0)
    square = (np.pi * h) ** 2
    turned = np.pi ** 2 * horner(square, [(-1) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1)]) / sines
    x, h = lnp.where(left, 1.0 - x, x), lnp.where(left, -h, h)
    v, rest = _digamma_rest(x, h)
    value = rest + v * horner(h * v, [(-1) ** k / (k + 1) for k in range(8, -1, -1)])
    return lnp.where(left, turned - value, value)


@derivatives(lambda out, value, z: lnp.ones_like(out), lambda out, value, z: lnp.where(is_pole(z), np.nan, 0.0))
def define_at_pole(value, z):
    """A derivative that is known at a point only: its own derivative is not."""
    return value


def _is_pole_pair(z, m):
    """Where z and z + m are poles, or so close to them that z + m is rounded to one: m is a whole number, z none above 0."""
    return is_pole(z + m) & (m == lnp.floor(m)) & ((z <= 0) | (z != lnp.floor(z)))


def _poch_derivative_z(out, z, m):
    y = z + m
    both = _is_pole_pair(z, m)
    alone = lnp.logical_and(is_pole(z), lnp.logical_not(both))
    n = guard(alone, 1.0 - z, 1.0)
    # z + m may be rounded to a pole: there gamma of it by how far m is from a whole number (DLMF 5.5.3)
    rest, whole = m - lnp.round(m), z + lnp.round(m)
    off_pole = alone & (rest != 0) & (whole <= 0)
    k, r = guard(off_pole, whole, 0.0), guard(off_pole, rest, 0.5)
    upper = lnp.where(off_pole, sign_of_pole(k) * np.pi / sin_pi(r) / compute_gamma(1.0 - k - r),
                      compute_gamma(guard(alone & lnp.logical_not(off_pole), y, 1.0)))
    at_zero = define_at_pole(sign_of_pole(z) * compute_gamma(n) * upper, guard(alone, z, 0.5))
    step = digamma_step(guard(lnp.logical_not(alone), lnp.where(both, 1.0 - z, z), 1.0), lnp.where(both, -m, m))
    return lnp.where(alone, at_zero, out * _set_nan_where(is_pole(y) & lnp.logical_not(both), y, step))


def _poch_derivative_m(out, z, m):
    y = z + m
    pole = is_pole(y)
    return out * _set_nan_where(pole & (out != 0), y, compute_digamma(guard(lnp.logical_not(pole), y, 1.0)))


def _set_nan_where(condition, x, value):
    """No number there, of which the derivatives in x are none either."""
    return lnp.where(condition, np.nan * guard(condition, x, 0.0), value)


def _poch_second_derivative_z(plain, _, z, m):
    """The second derivative in z; near 0, -1, ... by gamma(z + m) gamma(1 - z) sin(pi z) / pi, as terms like 1 / z cancel."""
    def first(z, m):
        high, turned = z + m, 1.0 - z
        step = compute_digamma(high) - compute_digamma(turned)
        return compute_gamma(high) * compute_gamma(turned) * (step * sin_pi(z) / np.pi + sin_pi(0.5 - z))

    gap, high_gap = (lnp.abs(x - lnp.round(x)) for x in (z, z + m))
    near = (z < 0.25) & (gap < 0.25) & ((z + m > 0.25) | (4.0 * gap < high_gap))
    near = near & (lnp.minimum(z, z + m) > pick(z, -30.0, -160.0))
    p, h = guard(near, z, 0.125), guard(near, m, 1.0)
    return lnp.where(near, jvp(lambda p: first(p, h), (p,), (lnp.ones_like(p),))[1], plain)


@derivatives(_poch_derivative_z, _poch_derivative_m, seconds={(0, 0): _poch_second_derivative_z})
def compute_poch(z, m):
    """The rising factorial of arrays."""
    y = z + m
    over, under = is_pole(y), is_pole(z)
    both = _is_pole_pair(z, m)  # the ratio, by reflection
    a, b = lnp.where(both, 1.0 - y, z), lnp.where(both, 1.0 - z, y)
    sign = lnp.where(both, sign_of_pole(m), 1.0)
    small = lnp.logical_and(lnp.abs(a) < 30.0, lnp.abs(b) < 30.0)
    direct = compute_gamma(guard(small, b, 1.0)) / compute_gamma(guard(small, a, 1.0))
    large = lnp.logical_and(a >= 8.0, b >= 8.0)
    ratio = log_ratio(guard(large, a, 8.0), lnp.where(large, m, 0.0))
    size = lnp.exp(lnp.where(large, ratio, compute_gammaln(b) - compute_gammaln(a)))
    signed = compute_gammasgn(a) * compute_gammasgn(b) * size
    value = lnp.where(m == 0, 1.0, lnp.where(small, direct, signed))
    return lnp.where(lnp.isnan(y), y, lnp.where(both, sign * value, lnp.where(under, 0.0, lnp.where(over, np.inf, value))))


@public_api(entries=SPECIAL)
def gamma(x: ArrayLike) -> Array:
    """The gamma function.

    Args: {x}
    Returns:
      Float array of the shape of `x`; NaN at negative whole numbers and minus infinity, infinite at 0, of its sign.
    Raises: {TypeError, DTypeError}

    Derivative: `gamma(x) * digamma(x)`.
    Source: DLMF 5.2.1; Cephes' rational function on [2, 3], above by DLMF 5.11.3, to the left by reflection, 5.5.3.

    >>> gamma(np.array([0.5, 1., 5.]))
    Array([ 1.7724539,  1.       , 24.       ], dtype=float32)
    """
    return call_real("gamma", compute_gamma, x)


@public_api(entries=SPECIAL)
def gammaln(x: ArrayLike) -> Array:
    """The logarithm of the size of gamma.

    Args: {x}
    Returns:
      Float array of the shape of `x`; infinite at 0, -1, -2, ...
    Raises: {TypeError, DTypeError}

    Derivative: `digamma(x)`.
    Source: meaning of `scipy.special.gammaln`; in float32 DLMF 5.11.1, 5.5.3 and polynomials at its zeros 1 and 2,
    in float64 near these by DLMF 5.7.3.

    >>> gammaln(np.array([1., 3., -1.]))
    Array([0.       , 0.6931472,       inf], dtype=float32)
    """
    return call_real("gammaln", compute_gammaln, x)


@public_api(entries=SPECIAL)
def gammasgn(x: ArrayLike) -> Array:
    """The sign of gamma.

    Args: {x}
    Returns:
      Float array of the shape of `x`: 1 or -1; NaN at negative whole numbers.
    Raises: {TypeError, DTypeError}

    Derivative: zero.
    Source: meaning of `scipy.special.gammasgn`.

    >>> gammasgn(np.array([2., -0.5, -1.5]))
    Array([ 1., -1.,  1.], dtype=float32)
    """
    return lax.stop_gradient(call_real("gammasgn", compute_gammasgn, x))


@public_api(entries=SPECIAL)
def digamma(x: ArrayLike) -> Array:
    """The logarithmic derivative of gamma.

    Args: {x}
    Returns:
      Float array of the shape of `x`; NaN at negative whole numbers; at 0 infinite, of the sign opposite to the zero's.
    Raises: {TypeError, DTypeError}

    Derivative: `polygamma(1, x)`.
    Source: DLMF 5.2.2.

    >>> digamma(np.array([1., 2.]))
    Array([-0.5772155,  0.4227846], dtype=float32)
    """
    return call_real("digamma", compute_digamma, x)


@public_api("exact")
def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """`n! = gamma(n + 1)`, 0 below zero.

    Args:
      n: real array of any shape, whole or not; integers and booleans become float.
      exact: must be False.
    Returns:
      Float array of the shape of `n`.
    Raises:
      TypeError: `n` is neither an array nor a number.
      DTypeError: `n` is complex.
      NotImplementedError: `exact` is true.

    Derivative: `n! * digamma(n + 1)`, 0 below zero.
    Source: meaning of `scipy.special.factorial`.

    >>> factorial(np.array([0, 5, -2]))
    Array([  1., 120.,   0.], dtype=float32)
    """
    if exact:
        raise NotImplementedError("factorial: exact=True needs integers of any size, which arrays cannot contain; use "
                                  "math.factorial, or leave it False")
    return call_real("factorial",
                     lambda x: lnp.where(x < 0, 0.0, compute_gamma(guard(lnp.logical_not(x < 0), x, 0.0) + 1.0)), n)


@public_api()
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """`gamma(z + m) / gamma(z)`, the rising factorial.

    Args:
      z, m: real arrays that broadcast to each other; integers and booleans become float.
    Returns:
      Float array of the common shape; where both gammas have a pole the ratio's limit, infinite where the upper alone has.
    Raises:
      TypeError: an argument is neither an array nor a number.
      DTypeError: an argument is complex.
      ShapeError: the shapes do not broadcast.

    Derivative: `y (digamma(z + m) - digamma(z))` and `y digamma(z + m)`, y the result; at poles of z their limits where
      they have one; NaN where the upper gamma has a pole, in z unless both have.
    Source: DLMF 5.2.5.

    >>> poch(np.array([1., 3., -2.]), np.array([4., 2., 2.]))
    Array([24.      , 12.      ,  2.      ], dtype=float32)
    """
    return call_real("poch", compute_poch, z, m)


@public_api("d")
def multigammaln(a: ArrayLike, d: int) -> Array:
    """The logarithm of the gamma function of matrices of d by d.

    Args:
      a: real array of any shape, above `(d - 1) / 2`; integers and booleans become float.
      d: the number of dimensions, a known int.
    Returns:
      Float array of the shape of `a`; NaN where `a` is not above `(d - 1) / 2`.
    Raises:
      TypeError: `a` is neither an array nor a number; `d` is traced, or no whole number.
      ValueError: `d` is negative.
      DTypeError: `a` is complex.

    Derivative: the sum of `digamma(a - j / 2)` for j below d.
    Source: DLMF 35.3.2.

    >>> multigammaln(np.array([2., 0.5]), 2)
    Array([0.45158274,        nan], dtype=float32)
    """
    size = check_whole_number("multigammaln", "d", d)
    x, = to_floats("multigammaln", a)

    def core(x):
        steps = lnp.astype(0.5 * lnp.arange(size), typeof(x).dtype)
        inside = x > 0.5 * (size - 1)
        each = compute_gammaln(lnp.where(lnp.expand_dims(inside, -1), lnp.expand_dims(x, -1) - steps, 1.0))
        value = lnp.sum(each, -1) + 0.25 * size * (size - 1) * _LOG_PI
        return lnp.where(inside, value, np.nan)
    return call_real("multigammaln", core, x)
