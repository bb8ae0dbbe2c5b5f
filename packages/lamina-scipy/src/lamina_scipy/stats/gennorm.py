"""The generalised normal distribution."""
from __future__ import annotations

import lamina_numpy as lnp
from lamina_numpy.extend import publish as _publish

from .._ground import within
from .._special._gammas import gammaln_of
from .._special._incomplete import gammaincc_of
from ._laws import Law, exponential, proper

__all__ = ["cdf", "logpdf", "pdf"]

_law = Law("gennorm", "the generalised normal distribution",
           beta="real array, above 0: its exponent; 1 gives Laplace's, 2 a normal distribution")


def _power(x, beta):
    """|x| to the power beta; at 0 its slope is 0 there."""
    zero = x == 0
    return lnp.where(zero, 0.0, lnp.power(lnp.where(zero, 1.0, lnp.abs(x)), beta))


def _logpdf(x, beta):
    """>>> logpdf(np.array([0., 2.]), 1.)
    Array([-0.6931472, -2.6931472], dtype=float32)"""
    y = _power(x, beta)
    return proper(lnp.log(0.5 * beta) - gammaln_of(1.0 / beta) - y, beta > 0)


def _pdf(x, beta):
    """>>> pdf(np.array([0., 2.]), 1.)
    Array([0.5       , 0.06766764], dtype=float32)"""
    return exponential(_logpdf(x, beta))


def _cdf(x, beta):
    """>>> cdf(np.array([0., -2.]), 1.)
    Array([0.5       , 0.06766764], dtype=float32)"""
    half = 0.5 * gammaincc_of(1.0 / within(beta > 0, beta, 1.0), _power(x, within(beta > 0, beta, 1.0)))
    return proper(lnp.where(x < 0, half, 1.0 - half), beta > 0)


logpdf = _law(_logpdf)
pdf = _law(_pdf)
cdf = _law(_cdf)

_publish(globals())
