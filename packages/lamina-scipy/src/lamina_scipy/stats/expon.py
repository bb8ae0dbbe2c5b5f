"""The exponential distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import within
from .._special._binomial_deviance import log1p_of
from ._distribution import Distribution, exponential, from_end, one_less, proper, complement_of_exp, standard, supported

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_distribution = Distribution("expon", "the exponential distribution")


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([1., -1.]))
    Array([ -1., -inf], dtype=float32)"""
    y = standard(x, loc, scale)
    return proper(supported(y >= 0, -within(y >= 0, y, 0.0) - lnp.log(scale), -np.inf, y), scale > 0)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0., -1.]))
    Array([1., 0.], dtype=float32)"""
    return exponential(_logpdf(x, loc, scale))


def _logsf(x, loc=0, scale=1):
    """>>> logsf(np.array([2., -1.]))
    Array([-2.,  0.], dtype=float32)"""
    return proper(0.0 - from_end(standard(x, loc, scale)), scale > 0)


def _sf(x, loc=0, scale=1):
    """>>> sf(np.array([0., np.inf]))
    Array([1., 0.], dtype=float32)"""
    return exponential(_logsf(x, loc, scale))


def _cdf(x, loc=0, scale=1):
    """>>> cdf(np.array([1e-10, -1.]))
    Array([1.e-10, 0.e+00], dtype=float32)"""
    return proper(complement_of_exp(0.0 - from_end(standard(x, loc, scale))), scale > 0)


def _logcdf(x, loc=0, scale=1):
    """>>> logcdf(np.array([np.log(2.), 0.]))
    Array([-0.6931472,       -inf], dtype=float32)"""
    return one_less(_logsf(x, loc, scale))


def _ppf(q, loc=0, scale=1):
    """>>> ppf(np.array([0., 1., 2.]))
    Array([ 0., inf, nan], dtype=float32)"""
    inside = (q >= 0) & (q <= 1)
    return proper(loc - scale * log1p_of(-within(inside, q, 0.0)), inside, scale > 0)


logpdf, pdf, cdf, logcdf, sf, logsf, ppf = map(_distribution, (_logpdf, _pdf, _cdf, _logcdf, _sf, _logsf, _ppf))

_publish(globals())
