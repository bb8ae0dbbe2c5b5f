"""The normal distribution."""
from __future__ import annotations

import math

import lamina_numpy as lnp
from lamina_numpy.extend import publish as _publish

from .._special._normal import compute_log_ndtr, compute_ndtr, compute_ndtri
from .._stats.distribution import Distribution, mask_invalid, standardize

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_distribution = Distribution("norm", "the normal distribution")

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([0., 10.]))
    Array([ -0.9189385, -50.918938 ], dtype=float32)"""
    y = standardize(x, loc, scale)
    return mask_invalid(-0.5 * y * y - lnp.log(scale) - _HALF_LOG_2PI, scale > 0)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0., 1.]))
    Array([0.3989423 , 0.24197073], dtype=float32)"""
    y = standardize(x, loc, scale)
    root = lnp.exp(-0.25 * y * y)  # twice, so that the width meets it before it is below what the dtype holds
    return mask_invalid(root / (scale * math.sqrt(2 * math.pi)) * root, scale > 0)


def _cdf(x, loc=0, scale=1):
    """>>> cdf(np.array([0., 1.]))
    Array([0.5      , 0.8413447], dtype=float32)"""
    return mask_invalid(compute_ndtr(standardize(x, loc, scale)), scale > 0)


def _logcdf(x, loc=0, scale=1):
    """>>> logcdf(np.array([0., -100.]))
    Array([-6.931472e-01, -5.005524e+03], dtype=float32)"""
    return mask_invalid(compute_log_ndtr(standardize(x, loc, scale)), scale > 0)


def _sf(x, loc=0, scale=1):
    """>>> sf(np.array([0., 9.]))
    Array([5.0000000e-01, 1.1285926e-19], dtype=float32)"""
    return mask_invalid(compute_ndtr(-standardize(x, loc, scale)), scale > 0)


def _logsf(x, loc=0, scale=1):
    """>>> logsf(np.array([0., 100.]))
    Array([-6.931472e-01, -5.005524e+03], dtype=float32)"""
    return mask_invalid(compute_log_ndtr(-standardize(x, loc, scale)), scale > 0)


def _ppf(q, loc=0, scale=1):
    """>>> ppf(np.array([0.5, 1e-20]))
    Array([ 0.      , -9.262341], dtype=float32)"""
    return mask_invalid(loc + scale * compute_ndtri(q), scale > 0)


def _isf(q, loc=0, scale=1):
    """>>> isf(np.array([0.5, 1e-20]))
    Array([0.      , 9.262341], dtype=float32)"""
    return mask_invalid(loc - scale * compute_ndtri(q), scale > 0)


logpdf, pdf, cdf, logcdf, sf, logsf, ppf, isf = map(
    _distribution, (_logpdf, _pdf, _cdf, _logcdf, _sf, _logsf, _ppf, _isf))

_publish(globals())
