"""Laplace's distribution."""
from __future__ import annotations

import lamina_numpy as lnp
from lamina_numpy.extend import publish as _publish

from .._stats.distribution import Distribution, exp_or_nan, mask_invalid, standardize

__all__ = ["cdf", "logpdf", "pdf"]

_distribution = Distribution("laplace", "Laplace's distribution")


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([0., 2.]))
    Array([-0.6931472, -2.6931472], dtype=float32)"""
    return mask_invalid(-lnp.abs(standardize(x, loc, scale)) - lnp.log(2.0 * scale), scale > 0)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0., 2.]))
    Array([0.5       , 0.06766764], dtype=float32)"""
    return exp_or_nan(_logpdf(x, loc, scale))


def _cdf(x, loc=0, scale=1):
    """>>> cdf(np.array([0., -2.]))
    Array([0.5       , 0.06766764], dtype=float32)"""
    y = standardize(x, loc, scale)
    below = y < 0
    half = 0.5 * lnp.exp(lnp.where(below, y, -y))  # which at 0 has the derivative that the size of y has not
    return mask_invalid(lnp.where(below, half, 1.0 - half), scale > 0)


logpdf, pdf, cdf = map(_distribution, (_logpdf, _pdf, _cdf))

_publish(globals())
