"""The beta function, and the incomplete gamma and beta functions."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import jvp
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike, lax

from .._util import SPECIAL_PAIR, call_real, derivatives, guard, pick
from ._log_densities import compute_log_beta_density, compute_log_gamma_density
from ._gammas import (NEAR_ONE, compute_digamma, digamma_quotient, digamma_step, expm1_quotient, gamma_above_small,
                      compute_gammaln, compute_gammasgn, is_pole, log_ratio, sin_pi, stirling)
from ._incomplete_shape_derivatives import betainc_derivative_a, betainc_derivative_b, gammainc_derivative_a

__all__ = ["beta", "betainc", "betaln", "gammainc", "gammaincc"]


@derivatives(lambda out, a, b: -digamma_step(a, b), lambda out, a, b: -digamma_step(b, a))
def compute_betaln(a, b):
    """log |beta| of arrays: by Stirling's formula without its large parts where both, or one, are large."""
    low, high = _reflect_beta(a, b)[:2]
    large = high >= 8.0
    both = low >= 8.0
    one = large & (low + high >= 8.0) & lnp.logical_not(both)
    p, q = guard(both, low, 8.0), guard(large, high, 8.0)
    h = p / q
    rest = (stirling(p) - stirling(p + q)) + stirling(q)
    formula = (0.5 * math.log(2 * math.pi) - 0.5 * lnp.log(q)) + rest + (p - 0.5) * lnp.log(h / (1.0 + h)) - q * lnp.log1p(h)
    of_low = compute_gammaln(low)
    mixed = of_low - log_ratio(q, lnp.where(one, low, 1.0))
    plain = of_low + compute_gammaln(high) - compute_gammaln(low + high)
    value = lnp.where(both, formula, lnp.where(one, mixed, plain))
    unbound = (is_pole(low) | is_pole(high)) & is_pole(low + high)
    return lnp.where(high == np.inf, lnp.where(low > 0, -np.inf, np.nan), lnp.where(unbound, np.inf, value))


def _reflect_beta(a, b):
    """The arguments in order, the sign of beta, whether they are others: where one is a pole -n and the other a whole number
    up to n, beta(-n, m) is (-1)^m beta(1 + n - m, m)."""
    low, high = lnp.minimum(a, b), lnp.maximum(a, b)
    finite = is_pole(low) & (high > 0) & (high == lnp.floor(high)) & (1.0 - low - high > 0)
    p = lnp.where(finite, 1.0 - low - high, low)
    sign = lnp.where(finite, 1.0 - 2.0 * lnp.remainder(high, 2.0), 1.0)
    return lnp.minimum(p, high), lnp.maximum(p, high), sign, finite


def _beta_remainder(a, b):
    """beta(a, b) - 1 / a - 1 / b of small arguments: of DLMF 5.12.1 and 5.7.3."""
    both, of_a, of_b = a + b, lnp.ones_like(a), lnp.ones_like(b)
    rest, total = lnp.zeros_like(a), lnp.zeros_like(a)
    for c in NEAR_ONE[-3:-pick(a, 13, 24):-1]:
        rest, of_a, of_b = both * rest + (of_a + of_b), of_a * a, of_b * b  # ((a + b)^k - a^k - b^k) / (a b)
        total = total + c * rest
    return -both * total * expm1_quotient(-a * b * total)


def _beta_derivative_near_pole(a, b):
    """The derivative in a where a + b is at or near a pole. There terms like 1 / (a + b) cancel in the usual form, but not in
    beta(a, 1 - a - b) sin(pi (a + b)) / sin(pi b), which beta(a, b) is by DLMF 5.5.3."""
    low, high, total = lnp.minimum(a, b), lnp.maximum(a, b), a + b
    turned = compute_gammasgn(high) * lnp.exp(compute_betaln(high, 1.0 - total)) / sin_pi(low)
    return turned * (sin_pi(total) * (compute_digamma(a) - compute_digamma(1.0 - total)) + np.pi * sin_pi(0.5 - total))


def _beta_second_derivative(i, plain, a, b):
    """The derivative of that in a in argument i, `plain` but where a + b is near a pole."""
    gap, least = lnp.abs(a + b - lnp.round(a + b)), lnp.minimum(lnp.abs(a), lnp.abs(b))
    near = (lnp.minimum(a, b) < 0) & (a + b < 0.25) & (gap < lnp.minimum(least, 0.25))
    near = near & lnp.logical_not(is_pole(a) | is_pole(b))
    p, q = guard(near, a, -0.75), guard(near, b, 0.625)
    by = [lnp.ones_like(p) if i == k else lnp.zeros_like(p) for k in range(2)]
    return lnp.where(near, jvp(_beta_derivative_near_pole, (p, q), tuple(by))[1], plain)


def _beta_mixed_derivative(plain, value, a, b):
    """The derivative in b of that in a: all but a little cancels where both are small, or one is."""
    low, high = lnp.where(lnp.abs(a) < lnp.abs(b), a, b), lnp.where(lnp.abs(a) < lnp.abs(b), b, a)
    small = lnp.abs(high) < 0.1
    one = lnp.ones_like(value)
    p, q = guard(small, a, 0.05), guard(small, b, 0.05)
    near = jvp(lambda q: jvp(lambda p: _beta_remainder(p, q), (p,), (one,))[1], (q,), (one,))[1]
    one_small = (lnp.abs(low) < 0.1) & (lnp.abs(high) >= 0.1)  # a beta(a, b) and the quotient have derivatives of order 1
    p, q = guard(one_small, low, 0.05), guard(one_small, high, 1.0)
    quotient, derivative = jvp(lambda p: digamma_quotient(q, p), (p,), (one,))
    of_low = digamma_step(p + q, 1.0 - q)
    mixed = -p * guard(one_small, value, 1.0) * (of_low * quotient + derivative)
    return lnp.where(small, near, _beta_second_derivative(1, lnp.where(one_small, mixed, plain), a, b))


def _beta_derivative(value, a, b):
    none = is_pole(a + b) & (value == 0) & lnp.logical_not(is_pole(a) | is_pole(b))
    some = lnp.logical_not(none)
    plain = -value * digamma_step(guard(some, a, 1.0), guard(some, b, 1.0))
    return lnp.where(none, _beta_derivative_near_pole(guard(none, a, -0.75), guard(none, b, 0.75)), plain)


@derivatives(_beta_derivative, lambda out, a, b: _beta_derivative(out, b, a), seconds={
    (0, 0): lambda plain, _, a, b: _beta_second_derivative(0, plain, a, b), (0, 1): _beta_mixed_derivative,
    (1, 1): lambda plain, _, a, b: _beta_second_derivative(0, plain, b, a)})
def _beta(a, b):
    low, high, sign, finite = _reflect_beta(a, b)
    sign = lnp.where((low > 0) | finite, sign, compute_gammasgn(a) * compute_gammasgn(b) * compute_gammasgn(a + b))
    value = sign * lnp.exp(compute_betaln(low, high))
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


def _replace_outside(a, x):
    good = lnp.logical_and(lnp.logical_and(a > 0, a < np.inf), lnp.logical_and(x >= 0, x < np.inf))
    return guard(good, a, 1.0), guard(good, x, 1.0)


def _gamma_density(a, x):
    return lnp.exp(compute_log_gamma_density(a, x))


@derivatives(lambda out, a, x: gammainc_derivative_a(a, x), lambda out, a, x: _gamma_density(a, x))
def compute_gammainc(a, x):
    """The share of the gamma integral below x, of arrays."""
    return _gamma_edges(a, x, lax.igamma(*_replace_outside(a, x)), True)


@derivatives(lambda out, a, x: -gammainc_derivative_a(a, x), lambda out, a, x: -_gamma_density(a, x))
def compute_gammaincc(a, x):
    """The share above x, of arrays."""
    small = (a > 0) & (a < 0.5) & (x > 0) & (x < 1.1)
    p, y = guard(small, a, 0.25), guard(small, x, 0.5)
    return _gamma_edges(a, x, lnp.where(small, p * gamma_above_small(p, y), lax.igammac(*_replace_outside(a, x))),
                        False)


def _beta_density(a, b, x):
    """The derivative of betainc in x; its limits at 0 and 1."""
    return lnp.exp(compute_log_beta_density(a, b, x))


@derivatives(lambda out, a, b, x: betainc_derivative_a(a, b, x), lambda out, a, b, x: betainc_derivative_b(a, b, x),
        lambda out, a, b, x: _beta_density(a, b, x))
def compute_betainc(a, b, x):
    """The regularised incomplete beta function of arrays."""
    in_range = (x >= 0) & (x <= 1)
    good = (a > 0) & (b > 0) & (a < np.inf) & (b < np.inf) & in_range
    value = lax.regularized_incomplete_beta(guard(good, a, 1.0), guard(good, b, 1.0), guard(good, x, 0.5))
    at_zero, at_one = (a == 0) | (b == np.inf), (b == 0) | (a == np.inf)  # where all mass is
    some = in_range & (a >= 0) & (b >= 0) & (at_zero != at_one)
    edge = lnp.where(some, lnp.where(x == 0, 0.0, lnp.where((x == 1) | at_zero, 1.0, 0.0)), np.nan)
    return lnp.where(good, value, edge)


@public_api(entries=SPECIAL_PAIR)
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """`gamma(a) * gamma(b) / gamma(a + b)`.

    Args: {a, b}
    Returns: {result}
    Raises: {TypeError, DTypeError, ShapeError}

    Derivative: `y (digamma(a) - digamma(a + b))` in a, y the result, where `a + b` is a pole its limit; in b likewise.
    Source: DLMF 5.12.1.

    >>> beta(np.array([1., 2.]), np.array([2., 3.]))
    Array([0.5       , 0.08333334], dtype=float32)
    """
    return call_real("beta", _beta, a, b)


@public_api(entries=SPECIAL_PAIR)
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of the size of `beta(a, b)`.

    Args: {a, b}
    Returns: {result}
    Raises: {TypeError, DTypeError, ShapeError}

    Derivative: `digamma(a) - digamma(a + b)` in a; in b likewise.
    Source: DLMF 5.12.1; large arguments after DiDonato and Morris, "Algorithm 708" (1992), section 6.

    >>> betaln(np.array([1., 1e6]), np.array([2., 1e6]))
    Array([-6.931472e-01, -1.386300e+06], dtype=float32)
    """
    return call_real("betaln", compute_betaln, a, b)


class GammaRatio(Protocol):
    """The type of `gammainc` and `gammaincc`."""

    def __call__(self, a: ArrayLike, x: ArrayLike) -> Array: ...


def _make_gamma_ratio(name: str, core: Callable[..., Any], says: str, at_zero: int, derivative: str,
                      example: str) -> GammaRatio:
    def op(a: ArrayLike, x: ArrayLike) -> Array:
        return call_real(name, core, a, x)
    doc = f"""{says}

    Args:
      a: real array, not negative; integers and booleans become float.
      x: real array that broadcasts with `a`, not negative.
    Returns:
      Float array of the common shape, in [0, 1]; {at_zero} at a = 0 and positive x; NaN if an argument is negative.
    Raises: {{TypeError, DTypeError, ShapeError}}

    Derivative: {derivative}.
    Source: DLMF 8.2.4.

    {example}
    """
    return public_api(name=name, doc=doc, entries=SPECIAL_PAIR)(op)


gammainc = _make_gamma_ratio("gammainc", compute_gammainc, "Return the regularized lower incomplete gamma function.", 1,
                             "in a `lax.igamma_grad_a`, whose own derivative in a is that of its sum or fraction; in x the\n"
                             "      density, `x**(a - 1) exp(-x) / gamma(a)`",
                             ">>> gammainc(np.array([1., 0.]), np.array([0., 1.]))\n    Array([0., 1.], dtype=float32)")
gammaincc = _make_gamma_ratio("gammaincc", compute_gammaincc,
                              "Return the regularized upper incomplete gamma function.", 0, "minus that of `gammainc`",
                              ">>> gammaincc(np.array([1., 2.]), np.array([0., np.inf]))\n"
                              "    Array([1., 0.], dtype=float32)")


@public_api(entries=SPECIAL_PAIR)
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The share of the beta integral below x: the regularised incomplete beta function.

    Args:
      a, b: real arrays, none below 0; integers and booleans become float.
      x: real array in [0, 1]; all three broadcast to each other.
    Returns:
      Float array of the common shape, in [0, 1]; NaN outside of these ranges, and where a and b are both 0 or infinite.
    Raises: {TypeError, DTypeError, ShapeError}

    Derivative: in x the density; in a and b by the fraction of DLMF 8.17.22, step by step; NaN where
      50,000 steps are too few, as near the middle for `a` and `b` of some 1e8.
    Source: DLMF 8.17.2.

    >>> betainc(1., 2., np.array([0., 0.5, 1.]))
    Array([0.        , 0.74999994, 1.        ], dtype=float32)
    """
    return call_real("betainc", compute_betainc, a, b, x)
