"""The exponential distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._binomial_deviance import compute_log1p
from .._stats.distribution import (Distribution, clip_at_end, exp_complement, exp_or_nan, log1mexp, mask_invalid, mask_outside,
                            standardize)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_distribution = Distribution("expon", "the exponential distribution")


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([1., -1.]))
    Array([ -1., -inf], dtype=float32)"""
    y = standardize(x, loc, scale)
    return mask_invalid(mask_outside(y >= 0, -guard(y >= 0, y, 0.0) - lnp.log(scale), -np.inf, y), scale > 0)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0., -1.]))
    Array([1., 0.], dtype=float32)"""
    return exp_or_nan(_logpdf(x, loc, scale))


def _logsf(x, loc=0, scale=1):
    """>>> logsf(np.array([2., -1.]))
    Array([-2.,  0.], dtype=float32)"""
    return mask_invalid(0.0 - clip_at_end(standardize(x, loc, scale)), scale > 0)


def _sf(x, loc=0, scale=1):
    """>>> sf(np.array([0., np.inf]))
    Array([1., 0.], dtype=float32)"""
    return exp_or_nan(_logsf(x, loc, scale))


def _cdf(x, loc=0, scale=1):
    """>>> cdf(np.array([1e-10, -1.]))
    Array([1.e-10, 0.e+00], dtype=float32)"""
    return mask_invalid(exp_complement(0.0 - clip_at_end(standardize(x, loc, scale))), scale > 0)


def _logcdf(x, loc=0, scale=1):
    """>>> logcdf(np.array([np.log(2.), 0.]))
    Array([-0.6931472,       -inf], dtype=float32)"""
    return log1mexp(_logsf(x, loc, scale))


def _ppf(q, loc=0, scale=1):
    """>>> ppf(np.array([0., 1., 2.]))
    Array([ 0., inf, nan], dtype=float32)"""
    inside = (q >= 0) & (q <= 1)
    return mask_invalid(loc - scale * compute_log1p(-guard(inside, q, 0.0)), inside, scale > 0)


logpdf, pdf, cdf, logcdf, sf, logsf, ppf = map(_distribution, (_logpdf, _pdf, _cdf, _logcdf, _sf, _logsf, _ppf))

_publish(globals())
