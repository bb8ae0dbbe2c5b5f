"""The beta function, and the incomplete gamma and beta functions."""
from __future__ import annotations

import math
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import dtypes
from lamina_numpy.extend import public
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._ground import by_dtype, no_slope, real, slopes, within
from ._deviances import drop_of, rest_of
from ._entropies import share_of, xlog1py_of, xlogy_of
from ._gammas import digamma_step, gammaln_after_one, gammaln_of, gammasgn_of, is_pole, log_ratio, stirling

__all__ = ["beta", "betainc", "betaln", "gammainc", "gammaincc"]

_MOST_STEPS = 50000


@slopes(lambda out, a, b: -digamma_step(a, b), lambda out, a, b: -digamma_step(b, a))
def betaln_of(a, b):
    """log |beta| of arrays: by Stirling's formula without its large parts where both, or one, are large."""
    low, high = _reflected(a, b)[:2]
    large = high >= 8.0
    both = low >= 8.0
    one = large & (low + high >= 8.0) & lnp.logical_not(both)
    p, q = within(both, low, 8.0), within(large, high, 8.0)
    h = p / q
    rest = (stirling(p) - stirling(p + q)) + stirling(q)
    formula = (0.5 * math.log(2 * math.pi) - 0.5 * lnp.log(q)) + rest + (p - 0.5) * lnp.log(h / (1.0 + h)) - q * lnp.log1p(h)
    of_low = gammaln_of(low)
    mixed = of_low - log_ratio(q, lnp.where(one, low, 1.0))
    plain = of_low + gammaln_of(high) - gammaln_of(low + high)
    value = lnp.where(both, formula, lnp.where(one, mixed, plain))
    unbound = (is_pole(low) | is_pole(high)) & is_pole(low + high)
    return lnp.where(high == np.inf, lnp.where(low > 0, -np.inf, np.nan), lnp.where(unbound, np.inf, value))


def _reflected(a, b):
    """The arguments in order, the sign of beta, whether they are others: where one is a pole -n and the other a whole number
    up to n, beta(-n, m) is (-1)^m beta(1 + n - m, m)."""
    low, high = lnp.minimum(a, b), lnp.maximum(a, b)
    finite = is_pole(low) & (high > 0) & (high == lnp.floor(high)) & (1.0 - low - high > 0)
    p = lnp.where(finite, 1.0 - low - high, low)
    sign = lnp.where(finite, 1.0 - 2.0 * lnp.remainder(high, 2.0), 1.0)
    return lnp.minimum(p, high), lnp.maximum(p, high), sign, finite


@slopes(lambda out, a, b: -out * digamma_step(a, b), lambda out, a, b: -out * digamma_step(b, a))
def _beta(a, b):
    low, high, sign, finite = _reflected(a, b)
    sign = lnp.where((low > 0) | finite, sign, gammasgn_of(a) * gammasgn_of(b) * gammasgn_of(a + b))
    value = sign * lnp.exp(betaln_of(low, high))
    pole = (is_pole(a) | is_pole(b)) & lnp.logical_not(finite)
    at_pole = lnp.where((a == 0) | (b == 0), 1.0 / a + 1.0 / b, np.inf)
    below = is_pole(a + b) & (low <= 0) & lnp.logical_not(finite)
    return lnp.where(lnp.isnan(a + b), np.nan, lnp.where(pole, at_pole, lnp.where(below, 0.0, value)))


def _gamma_edges(a, x, value, below):
    """What the incomplete gamma functions are where `lax` has no number: at a = 0, at infinities, outside."""
    out = lnp.where(lnp.logical_or(a == 0, x == np.inf), 1.0 if below else 0.0,
                    lnp.where(a == np.inf, 0.0 if below else 1.0, value))
    none = lnp.logical_or(lnp.logical_or(a < 0, x < 0), lnp.logical_or(
        lnp.logical_and(a == 0, x == 0), lnp.logical_and(a == np.inf, x == np.inf)))
    return lnp.where(lnp.logical_or(none, lnp.isnan(a + x)), np.nan, out)


def _inside(a, x):
    good = lnp.logical_and(lnp.logical_and(a > 0, a < np.inf), lnp.logical_and(x >= 0, x < np.inf))
    return within(good, a, 1.0), within(good, x, 1.0)


def _gamma_density(a, x):
    return lnp.exp(log_gamma_density_of(a, x))


def log_gamma_density_of(a, x):
    """(a - 1) log x - x - log gamma(a) of arrays; of large shapes by Stirling's formula, its large parts in one deviance."""
    large = (a >= 20.0) & (a < np.inf) & (x > 0)
    p, y = within(large, a, 20.0), within(large, x, 20.0)
    formula = drop_of(p, y, y - p) - stirling(p) + 0.5 * lnp.log(p / (2 * math.pi)) - lnp.log(y)
    usual = lnp.logical_not(large)
    p, y = within(usual, a, 1.0), within(usual, x, 1.0)
    return lnp.where(large, formula, xlogy_of(p - 1.0, y) - y - gammaln_of(p))


@slopes(lambda out, a, x: lax.igamma_grad_a(a, x), lambda out, a, x: _gamma_density(a, x))
def gammainc_of(a, x):
    """The share of the gamma integral below x, of arrays."""
    return _gamma_edges(a, x, lax.igamma(*_inside(a, x)), True)


@slopes(lambda out, a, x: -lax.igamma_grad_a(a, x), lambda out, a, x: -_gamma_density(a, x))
def gammaincc_of(a, x):
    """The share above x, of arrays; for small a and x by a difference taken before its parts are rounded (DLMF 8.7.1)."""
    small = (a > 0) & (a < 0.5) & (x > 0) & (x < 1.1)
    p, y = within(small, a, 0.25), within(small, x, 0.5)
    total, term = lnp.zeros_like(y), lnp.ones_like(y)
    for k in range(1, by_dtype(x, 13, 22)):
        term = -term * y / k
        total = total + term / (p + k)
    power = p * lnp.log(y) - gammaln_after_one(p)
    series = -lnp.expm1(power) - p * lnp.exp(power) * total
    return _gamma_edges(a, x, lnp.where(small, series, lax.igammac(*_inside(a, x))), False)


@slopes(lambda out, a, b, x: lnp.log(x) + digamma_step(a, b), lambda out, a, b, x: lnp.log1p(-x) + digamma_step(b, a),
        lambda out, a, b, x: share_of(a - 1.0, x) - share_of(b - 1.0, 1.0 - x))
def _log_beta_end(a, b, x):
    """The logarithm of the density at an end, x: infinite, but where that end's shape is 1; its slopes are those beside it."""
    return xlogy_of(a - 1.0, x) + xlog1py_of(b - 1.0, -x) + lnp.log(lnp.where(x == 0, b, a))


def log_beta_density_of(a, b, x):
    """(a - 1) log x + (b - 1) log(1 - x) - log beta(a, b), by deviances; at both ends its limits. There the slope in the shape
    of that end is log 0 also where this shape is 1, as on both sides of 1."""
    inside = (x > 0) & (x < 1)
    y = within(inside, x, 0.5)
    z, both = 1.0 - y, a + b
    over = a * z - b * y
    value = (drop_of(a, both * y, -over) + drop_of(b, both * z, over) + (rest_of(both) - rest_of(a) - rest_of(b))
             + (lnp.log(a) - lnp.log(y)) + (lnp.log(b / both) - lnp.log1p(-y)))
    return lnp.where(inside, value, _log_beta_end(a, b, within(lnp.logical_not(inside), x, 0.5)))


def _beta_density(a, b, x):
    """The slope of betainc in x; its limits at 0 and 1."""
    return lnp.exp(log_beta_density_of(a, b, x))


def _fraction_slopes(a, b, x, y, log_x, log_y):
    """The slopes in a and b of the logarithm of betainc, and what it is beside x^a y^b / (a beta(a, b)), for y = 1 - x and x
    left of its turning point. There the fraction of DLMF 8.17.22 settles in some multiple of sqrt(a) steps: its even part, by
    Lentz's method as in DiDonato and Morris, "Algorithm 708" (1992), whose factors have slopes too. NaN where it does not."""
    eps = float(dtypes.finfo(typeof(x).dtype).eps)
    base_a, base_b = log_x + (digamma_step(a, b) - 1.0 / a), log_y + digamma_step(b, a)

    def unsettled(state: Any) -> Any:
        value_change, a_change, b_change, in_a, in_b = state[-5:]
        return ((lnp.abs(value_change - 1.0) > 2 * eps) | (lnp.abs(a_change) > 2 * eps * (lnp.abs(in_a) + lnp.abs(base_a)))
                | (lnp.abs(b_change) > 2 * eps * (lnp.abs(in_b) + lnp.abs(base_b))))

    def more(state: Any) -> Any:
        return lnp.logical_and(state[0] < _MOST_STEPS, lnp.any(unsettled(state)))

    def step(state: Any) -> Any:
        k, c, c_a, c_b, d, d_a, d_b, value, *_, in_a, in_b = state
        k = k + 1.0
        under, over, s, r = a + (2.0 * k - 1.0), a + (2.0 * k + 1.0), a + b + (k - 1.0), a + (k - 1.0)
        q, part = x / under, (a + k) / over
        w, p, level = k * (b - k) * q, q * r, a * y - b * x + 1.0 + k * (y + 1.0)
        top, low = w * p * s, k + w + part * level
        top_a, top_b = top * (1.0 / r - 2.0 / under + 1.0 / s), p * (k * q * s + w)
        low_a, low_b = part * y + (k + 1.0) / over / over * level - w / under, k * q - part * x
        ratio, inverse = top / c, 1.0 / (low + top * d)
        c_a, c_b = low_a + (top_a - ratio * c_a) / c, low_b + (top_b - ratio * c_b) / c
        d_a, d_b = -inverse * (low_a + top_a * d + top * d_a) * inverse, -inverse * (low_b + top_b * d + top * d_b) * inverse
        c, d = low + ratio, inverse
        change, a_change, b_change = c * d, c_a / c + d_a / d, c_b / c + d_b / d
        return k, c, c_a, c_b, d, d_a, d_b, value * change, change, a_change, b_change, in_a + a_change, in_b + b_change

    first = a * y - b * x + 1.0
    value, in_a, in_b = first / (a + 1.0), y / first - 1.0 / (a + 1.0), -x / first
    c, zero, none = a * value, lnp.zeros_like(x), lnp.full_like(x, np.inf)
    start = (lnp.zeros((), typeof(x).dtype), c, value + a * value * in_a, c * in_b, zero, zero, zero, value, none, none, none,
             in_a, in_b)
    out = lax.while_loop(more, step, start)
    value = lnp.where(unsettled(out), np.nan, out[7])
    return base_a - out[-2], base_b - out[-1], 1.0 / value


def _by_shapes(a, b, x):
    """The slopes in a and b; at both ends of x they are zero."""
    good = (a > 0) & (b > 0) & (x > 0) & (x < 1)
    p, q, y = within(good, a, 1.0), within(good, b, 1.0), within(good, x, 0.5)
    turn = y > (p + 1.0) / (p + q + 2.0)
    rest, log, log_rest = 1.0 - y, lnp.log(y), lnp.log1p(-y)
    low, high = lnp.where(turn, q, p), lnp.where(turn, p, q)
    in_low, in_high, left = _fraction_slopes(low, high, lnp.where(turn, rest, y), lnp.where(turn, y, rest),
                                             lnp.where(turn, log_rest, log), lnp.where(turn, log, log_rest))
    share = lnp.exp(log_beta_density_of(p, q, y)) * y * rest / low * left
    ends = (a > 0) & (b > 0) & ((x == 0) | (x == 1))
    return [lnp.where(good, share * lnp.where(turn, -other, own), lnp.where(ends, 0.0, np.nan))
            for own, other in ((in_low, in_high), (in_high, in_low))]


def _mixed(own, a, b, x):
    """The slope in x of the slope in a shape."""
    log, other = (lnp.log(x), b) if own is a else (lnp.log1p(-x), a)
    return _beta_density(a, b, x) * (log + digamma_step(own, other))


_twice = [no_slope("betainc's slope in a or b", name) for name in "ab"]
betainc_slope_a = slopes(*_twice, lambda out, a, b, x: _mixed(a, a, b, x))(lambda a, b, x: _by_shapes(a, b, x)[0])
betainc_slope_b = slopes(*_twice, lambda out, a, b, x: _mixed(b, a, b, x))(lambda a, b, x: _by_shapes(a, b, x)[1])


@slopes(lambda out, a, b, x: betainc_slope_a(a, b, x), lambda out, a, b, x: betainc_slope_b(a, b, x),
        lambda out, a, b, x: _beta_density(a, b, x))
def betainc_of(a, b, x):
    """The regularised incomplete beta function of arrays."""
    in_range = (x >= 0) & (x <= 1)
    good = (a > 0) & (b > 0) & (a < np.inf) & (b < np.inf) & in_range
    value = lax.regularized_incomplete_beta(within(good, a, 1.0), within(good, b, 1.0), within(good, x, 0.5))
    at_zero, at_one = (a == 0) | (b == np.inf), (b == 0) | (a == np.inf)  # where all mass is
    some = in_range & (a >= 0) & (b >= 0) & (at_zero != at_one)
    edge = lnp.where(some, lnp.where(x == 0, 0.0, lnp.where((x == 1) | at_zero, 1.0, 0.0)), np.nan)
    return lnp.where(good, value, edge)


@public()
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """`gamma(a) * gamma(b) / gamma(a + b)`.

    Args:
      a, b: real arrays that broadcast to each other; integers and booleans become float.
    Returns:
      Float array of the common shape.
    Raises:
      TypeError: an argument is neither an array nor a number.
      DTypeError: an argument is complex.
      ShapeError: the shapes do not broadcast.

    Derivative: `y (digamma(a) - digamma(a + b))` in a, y the result; in b likewise.
    Source: DLMF 5.12.1.

    >>> beta(np.array([1., 2.]), np.array([2., 3.]))
    Array([0.5       , 0.08333334], dtype=float32)
    """
    return real("beta", _beta, a, b)


@public()
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of the size of `beta(a, b)`.

    Args:
      a, b: real arrays that broadcast to each other; integers and booleans become float.
    Returns:
      Float array of the common shape.
    Raises:
      TypeError: an argument is neither an array nor a number.
      DTypeError: an argument is complex.
      ShapeError: the shapes do not broadcast.

    Derivative: `digamma(a) - digamma(a + b)` in a; in b likewise.
    Source: DLMF 5.12.1; large arguments after DiDonato and Morris, "Algorithm 708" (1992), section 6.

    >>> betaln(np.array([1., 1e6]), np.array([2., 1e6]))
    Array([-6.931472e-01, -1.386300e+06], dtype=float32)
    """
    return real("betaln", betaln_of, a, b)


@public()
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The share of the gamma integral below x: the regularised lower incomplete gamma function.

    Args:
      a: real array, none below 0; integers and booleans become float.
      x: real array that broadcasts with `a`, none below 0.
    Returns:
      Float array of the common shape, in [0, 1]; 1 at a = 0 and positive x; NaN where an argument is negative.
    Raises:
      TypeError: an argument is neither an array nor a number.
      DTypeError: an argument is complex.
      ShapeError: the shapes do not broadcast.

    Derivative: in a `lax.igamma_grad_a`; in x the density `x**(a - 1) exp(-x) / gamma(a)`.
    Source: DLMF 8.2.4.

    >>> gammainc(np.array([1., 0.]), np.array([0., 1.]))
    Array([0., 1.], dtype=float32)
    """
    return real("gammainc", gammainc_of, a, x)


@public()
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The share of the gamma integral above x: the regularised upper incomplete gamma function.

    Args:
      a: real array, none below 0; integers and booleans become float.
      x: real array that broadcasts with `a`, none below 0.
    Returns:
      Float array of the common shape, in [0, 1]; 0 at a = 0 and positive x; NaN where an argument is negative.
    Raises:
      TypeError: an argument is neither an array nor a number.
      DTypeError: an argument is complex.
      ShapeError: the shapes do not broadcast.

    Derivative: minus that of `gammainc`.
    Source: DLMF 8.2.4.

    >>> gammaincc(np.array([1., 2.]), np.array([0., np.inf]))
    Array([1., 0.], dtype=float32)
    """
    return real("gammaincc", gammaincc_of, a, x)


@public()
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The share of the beta integral below x: the regularised incomplete beta function.

    Args:
      a, b: real arrays, none below 0; integers and booleans become float.
      x: real array in [0, 1]; all three broadcast to each other.
    Returns:
      Float array of the common shape, in [0, 1]; NaN outside of these ranges, and where a and b are both 0 or infinite.
    Raises:
      TypeError: an argument is neither an array nor a number.
      DTypeError: an argument is complex.
      ShapeError: the shapes do not broadcast.
      NotImplementedError: a second derivative in `a` and `b` is asked for.

    Derivative: in x the density; in a and b by the fraction of DLMF 8.17.22, step by step; NaN where
      50,000 steps are too few, as near the middle for `a` and `b` of some 1e8.
    Source: DLMF 8.17.2.

    >>> betainc(1., 2., np.array([0., 0.5, 1.]))
    Array([0.        , 0.74999994, 1.        ], dtype=float32)
    """
    return real("betainc", betainc_of, a, b, x)
