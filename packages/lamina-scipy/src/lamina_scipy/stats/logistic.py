"""The logistic distribution."""
from __future__ import annotations

import lamina_numpy as lnp
from lamina_numpy.extend import publish as _publish

from .._util import derivatives
from .._special._xlogy import compute_expit, compute_logit
from .._stats.distribution import Distribution, exp_or_nan, mask_invalid, standardize

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]

_distribution = Distribution("logistic", "the logistic distribution")


@derivatives(lambda out, y: -2.0 * compute_expit(y) * compute_expit(-y))
def _steepness(y):
    """The derivative of the logarithm of the density; its own derivative is no difference of near numbers."""
    return -lnp.tanh(0.5 * y)


@derivatives(lambda out, y: _steepness(y))
def _log_density(y):
    size = lnp.abs(y)
    return -size - 2.0 * lnp.log1p(lnp.exp(-size))


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([0., 2.]))
    Array([-1.3862944, -2.253856 ], dtype=float32)"""
    return mask_invalid(_log_density(standardize(x, loc, scale)) - lnp.log(scale), scale > 0)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0., 2.]))
    Array([0.25     , 0.1049936], dtype=float32)"""
    return exp_or_nan(_logpdf(x, loc, scale))


def _cdf(x, loc=0, scale=1):
    """>>> cdf(np.array([0., 2.]))
    Array([0.5      , 0.8807971], dtype=float32)"""
    return mask_invalid(compute_expit(standardize(x, loc, scale)), scale > 0)


def _sf(x, loc=0, scale=1):
    """>>> sf(np.array([0., 2.]))
    Array([0.5       , 0.11920292], dtype=float32)"""
    return mask_invalid(compute_expit(-standardize(x, loc, scale)), scale > 0)


def _ppf(q, loc=0, scale=1):
    """>>> ppf(np.array([0.5, 0.75]))
    Array([0.       , 1.0986123], dtype=float32)"""
    return mask_invalid(loc + scale * compute_logit(q), scale > 0)


def _isf(q, loc=0, scale=1):
    """>>> isf(np.array([0.5, 0.75]))
    Array([ 0.       , -1.0986123], dtype=float32)"""
    return mask_invalid(loc - scale * compute_logit(q), scale > 0)


logpdf, pdf, cdf, sf, ppf, isf = map(_distribution, (_logpdf, _pdf, _cdf, _sf, _ppf, _isf))

_publish(globals())
