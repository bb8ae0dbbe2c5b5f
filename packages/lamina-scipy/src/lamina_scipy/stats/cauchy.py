"""Cauchy's distribution."""
from __future__ import annotations

import math

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import derivatives, guard
from .._special._binomial_deviance import compute_log1p
from .._stats.distribution import Distribution, exp_or_nan, hyperbola, log1p_square, mask_invalid, standardize

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_distribution = Distribution("cauchy", "Cauchy's distribution")


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([0., 1e30]))
    Array([  -1.1447299, -139.29984  ], dtype=float32)"""
    return mask_invalid(-log1p_square(standardize(x, loc, scale)) - math.log(math.pi) - lnp.log(scale), scale > 0)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0., 1.]))
    Array([0.3183099 , 0.15915495], dtype=float32)"""
    return exp_or_nan(_logpdf(x, loc, scale))


def _cdf(x, loc=0, scale=1):
    """>>> cdf(np.array([0., -1e10]))
    Array([5.000000e-01, 3.183099e-11], dtype=float32)"""
    y = standardize(x, loc, scale)
    return mask_invalid(lnp.arctan2(lnp.ones_like(y), -y) / np.pi, scale > 0)


def _sf(x, loc=0, scale=1):
    """>>> sf(np.array([0., 1e10]))
    Array([5.000000e-01, 3.183099e-11], dtype=float32)"""
    y = standardize(x, loc, scale)
    return mask_invalid(lnp.arctan2(lnp.ones_like(y), y) / np.pi, scale > 0)


def _rate(y):
    """Return the density divided by the lower share, even if the square overflows."""
    angle, wide = lnp.arctan2(lnp.ones_like(y), -y), lnp.abs(y) > 1.0
    z, flat = guard(wide, y, 2.0), lnp.where(wide, 0.0, y)
    return lnp.where(wide, 0.5 * hyperbola(z) / (z * angle), 1.0 / ((1.0 + flat * flat) * angle))


@derivatives(lambda out, y: _rate(y))
def _log_lower(y):
    share = lnp.arctan2(lnp.ones_like(y), lnp.abs(y)) / np.pi
    return lnp.where(y < 0, lnp.log(share), compute_log1p(-share))


def _logcdf(x, loc=0, scale=1):
    """>>> logcdf(np.array([0., -1e10]))
    Array([ -0.6931472, -24.17058  ], dtype=float32)"""
    return mask_invalid(_log_lower(standardize(x, loc, scale)), scale > 0)


def _logsf(x, loc=0, scale=1):
    """>>> logsf(np.array([0., 1e10]))
    Array([ -0.6931472, -24.17058  ], dtype=float32)"""
    return mask_invalid(_log_lower(-standardize(x, loc, scale)), scale > 0)


@derivatives(lambda out, q: lnp.where(lnp.isnan(out), 0.0, np.pi * (1.0 + out * out)))
def _quantile(q):
    """Return the quantile, computed in both tails from the smaller share."""
    small = lnp.minimum(q, 1.0 - q)
    middle = small > 0.25
    tail = 1.0 / lnp.tan(np.pi * lnp.where(middle, 0.25, small))
    value = lnp.where(middle, lnp.tan(np.pi * (q - 0.5)), lnp.where(q < 0.5, -tail, tail))
    value = lnp.where(q == 0, -np.inf, lnp.where(q == 1, np.inf, value))
    return lnp.where((q >= 0) & (q <= 1), value, np.nan)


def _ppf(q, loc=0, scale=1):
    """>>> ppf(np.array([0.5, 1.]))
    Array([ 0., inf], dtype=float32)"""
    return mask_invalid(loc + scale * _quantile(q), scale > 0)


def _isf(q, loc=0, scale=1):
    """>>> isf(np.array([0.5, 1.]))
    Array([  0., -inf], dtype=float32)"""
    return mask_invalid(loc - scale * _quantile(q), scale > 0)


logpdf, pdf, cdf, sf, logcdf, logsf, ppf, isf = map(
    _distribution, (_logpdf, _pdf, _cdf, _sf, _logcdf, _logsf, _ppf, _isf))

_publish(globals())
