"""The generalised normal distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import jvp
from lamina_numpy.extend import publish as _publish

from .._util import derivatives, guard, pick
from .._special._gammas import gammaln_after_one, compute_gammaln
from .._special._incomplete import compute_gammaincc
from .._stats.distribution import Distribution, exp_or_nan, mask_invalid

__all__ = ["cdf", "logpdf", "pdf"]

_distribution = Distribution("gennorm", "the generalised normal distribution",
                             beta="real array, above 0: its exponent; 1 gives Laplace's, 2 a normal distribution")


def _replace_at_zero(x, value, at_zero=0.0):
    """`value` of |x|, which is `at_zero` where x is 0."""
    zero = x == 0
    return lnp.where(zero, at_zero, value(lnp.where(zero, 1.0, lnp.abs(x))))


def _bend(out, x, beta):
    """The second derivative: at 0 that of a square is 2, that of an exponent between 1 and 2 infinite."""
    at_zero = lnp.where(beta == 2, 2.0, lnp.where((beta > 1) & (beta < 2), np.inf, 0.0))
    return _replace_at_zero(x, lambda r: beta * (beta - 1.0) * lnp.power(r, beta - 2.0), at_zero)


@derivatives(_bend, lambda out, x,
             beta: lnp.sign(x) * _replace_at_zero(x, lambda r: lnp.power(r, beta - 1.0) * (1.0 + beta * lnp.log(r))))
def _rise(x, beta):
    return lnp.sign(x) * _replace_at_zero(x, lambda r: beta * lnp.power(r, beta - 1.0))


@derivatives(lambda out, x, beta: _rise(x, beta), lambda out, x,
             beta: _replace_at_zero(x, lambda r: lnp.power(r, beta) * lnp.log(r)))
def _power(x, beta):
    """|x| to the power beta; at 0 its derivative is 0, the mean of the left and right ones."""
    return _replace_at_zero(x, lambda r: lnp.power(r, beta))


def _logpdf(x, beta):
    """>>> logpdf(np.array([0., 2.]), 1.)
    Array([-0.6931472, -2.6931472], dtype=float32)"""
    y = _power(x, beta)
    return mask_invalid(lnp.log(0.5 * beta) - compute_gammaln(1.0 / beta) - y, beta > 0)


def _pdf(x, beta):
    """>>> pdf(np.array([0., 2.]), 1.)
    Array([0.5       , 0.06766764], dtype=float32)"""
    return exp_or_nan(_logpdf(x, beta))


def _tail_share(x, beta):
    """The share beyond x, none below 0, on both sides: gammaincc(1 / beta, x ** beta). Where that power is small by DLMF
    8.7.1: its own power 1 / beta is x again, however far the first one underflows."""
    gone = (x > 1.0) & (beta * lnp.log(guard(x > 1.0, x, 2.0)) > 7.0)  # x ** beta is above 1000
    x = guard(lnp.logical_not(gone), x, 1.0)
    a, y = 1.0 / beta, _power(x, beta)
    small = (a < 0.5) & (y < 1.1)
    p, t, u = guard(small, a, 0.25), guard(small, y, 0.5), guard(small, x, 0.5)
    total, term = lnp.zeros_like(t), lnp.ones_like(t)
    for k in range(1, pick(x, 13, 22)):
        term = -term * t / k
        total = total + term / (p + k)
    log_gamma, far = gammaln_after_one(p), u > 0.5
    part = lnp.exp(-log_gamma) * u
    rest = lnp.where(far, -lnp.expm1(lnp.log(guard(far, u, 1.0)) - log_gamma), 1.0 - part) - p * part * total
    usual = lnp.logical_not(small)
    return lnp.where(gone, 0.0, lnp.where(small, rest, compute_gammaincc(guard(usual, a, 1.0), guard(usual, y, 1.0))))


def _derivative_beta(out, x, beta):
    y = lnp.where(x == 0, 1.0, x)  # at 0 it is 1/2 of every distribution
    return lnp.where(x == 0, 0.0, jvp(lambda beta: _lower_share(y, beta), (beta,), (lnp.ones_like(beta),))[1])


def _lower_share(x, beta):
    half = 0.5 * _tail_share(lnp.where(x < 0, -x, x), beta)
    return lnp.where(x < 0, half, 1.0 - half)


_share = derivatives(lambda out, x, beta: _pdf(x, beta), _derivative_beta)(_lower_share)


def _cdf(x, beta):
    """>>> cdf(np.array([0., -2.]), 1.)
    Array([0.5       , 0.06766764], dtype=float32)"""
    return mask_invalid(_share(x, guard(beta > 0, beta, 1.0)), beta > 0)


logpdf, pdf, cdf = map(_distribution, (_logpdf, _pdf, _cdf))

_publish(globals())
