"""The parts that densities and probabilities of large shapes are made of, each small where they are not: Loader, "Fast and
accurate computation of binomial probabilities" (2000). log x! is x log x - x + `factorial_rest(x)`; the rest
of the large terms are deviances, `deviance_term`.
"""
from __future__ import annotations

import math

import lamina_numpy as lnp
import numpy as np
from lamina_tracing import lax
from lamina_tracing.extend import typeof

from .._util import derivatives, guard, horner, pick
from ._log_gamma import DIGAMMA, NARROW_STIRLING, STIRLING, gammaln1p_float32

__all__ = ["compute_log1p", "compute_log_ratio", "deviance_term", "factorial_rest"]

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def compute_log1p(x):
    """log(1 + x): XLA's of float64 is off by 120 units between -0.42 and -0.29, where 1 + x is all but exact."""
    if typeof(x).dtype != np.float64:
        return lnp.log1p(x)
    far = x < -0.25
    return lnp.where(far, lnp.log(1.0 + guard(far, x, -0.5)), lnp.log1p(guard(lnp.logical_not(far), x, 0.0)))


@derivatives(lambda out, x, y: 1.0 / x, lambda out, x, y: -1.0 / y)
def compute_log_ratio(x, y):
    """log(x / y), exact to the last digits where both are close, and without overflow of the ratio."""
    ratio = x / y
    close = lnp.logical_and(ratio > 0.75, ratio < 1.4)  # XLA's log1p of float64 is off by 120 units between -0.42 and -0.29
    usual = lnp.logical_and(ratio > 0.0, ratio < np.inf)
    near = lnp.log1p(guard(close, (x - y) / y, 0.0))
    return lnp.where(close, near, lnp.where(usual, lnp.log(guard(usual, ratio, 1.0)), lnp.log(x) - lnp.log(y)))


def _drop_derivative_a(out, a, c, d):
    """At a = 0 without -log a, as the derivative of `factorial_rest` is there: their difference has none."""
    some = a > 0
    near = some & (lnp.abs(d) < 0.5 * a)
    small = lnp.log1p(guard(near, d, 0.0) / guard(near, a, 1.0))
    return lnp.where(near, small, compute_log_ratio(c, guard(some, a, 1.0)))


def _drop_derivative_c(out, a, c, d):
    return lnp.where(a == 0, -1.0, -d / guard(a != 0, c, 1.0))


# The derivative of d is in those of a and c, of which d is the difference: parts that are large where c is small do not meet.
@derivatives(_drop_derivative_a, _drop_derivative_c, lambda out, a, c, d: lnp.zeros_like(out))
def deviance_term(a, c, d):
    """a log(c / a) - d of arrays none below 0, where d is c - a; -d at a = 0. With u = d / a it is a (log(1 + u) - u), where
    u is small by powers of r = u / (2 + u): log(1 + u) = 2 artanh r (DLMF 4.6.2), and 2 r - u = -r u."""
    u = d / guard(a > 0, a, 1.0)
    near = (u > -0.3) & (u < 0.4)
    v = guard(near, u, 0.0)
    r = v / (v + 2.0)
    odd = horner(r * r, [1.0 / (2 * k + 1) for k in range(pick(u, 5, 11), 0, -1)])
    far = (a > 0) & lnp.logical_not(near)
    other = guard(far, a, 1.0) * compute_log_ratio(guard(far, c, 1.0), guard(far, a, 1.0)) - d
    return lnp.where(near & (a > 0), a * r * (2.0 * r * r * odd - v), other)


def _rest_derivative(out, x):
    large = x >= 8.0
    v, y = 1.0 / guard(large, x, 8.0), guard(lnp.logical_not(large), x, 1.0)
    far = v * (0.5 + v * horner(v * v, DIGAMMA[pick(x, 4, 0):]))
    return lnp.where(large, far, lax.digamma(y + 1.0) - lnp.log(guard(y > 0, y, 1.0)))  # at 0 without log 0


@derivatives(_rest_derivative)
def factorial_rest(x):
    """log x! - x log x + x of arrays none below 0."""
    from_ = pick(x, 2.5, 8.0)
    large = x >= from_
    v = 1.0 / guard(large, x, from_)
    far = horner(v * v, pick(x, NARROW_STIRLING, STIRLING)) * v + 0.5 * lnp.log(guard(large, x, from_)) + _HALF_LOG_2PI
    y = guard(lnp.logical_not(large), x, 1.0)
    log = lnp.log(guard(y > 0, y, 1.0))
    if pick(x, True, False):
        high = y > 1.5
        factorial = gammaln1p_float32(lnp.where(high, y - 1.0, y)) + lnp.where(high, log, 0.0)
    else:
        factorial = lax.lgamma(y + 1.0)
    return lnp.where(large, far, factorial - y * log + y)
