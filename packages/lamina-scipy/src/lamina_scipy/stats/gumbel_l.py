"""Gumbel's distribution of smallest values, the mirror of that of largest ones."""
from __future__ import annotations

import lamina_numpy as lnp
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._binomial_deviance import compute_log1p
from . import gumbel_r as _right
from .._stats.distribution import Distribution, mask_invalid

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_distribution = Distribution("gumbel_l", "Gumbel's distribution of smallest values")


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([0., 1e30]))
    Array([ -1., -inf], dtype=float32)"""
    return _right._logpdf(-x, -loc, scale)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0., -np.inf]))
    Array([0.36787945, 0.        ], dtype=float32)"""
    return _right._pdf(-x, -loc, scale)


def _cdf(x, loc=0, scale=1):
    """>>> cdf(np.array([0., -80.]))
    Array([6.3212055e-01, 1.8048513e-35], dtype=float32)"""
    return _right._sf(-x, -loc, scale)


def _logcdf(x, loc=0, scale=1):
    """>>> logcdf(np.array([0., -500.]))
    Array([-4.5867515e-01, -5.0000000e+02], dtype=float32)"""
    return _right._logsf(-x, -loc, scale)


def _sf(x, loc=0, scale=1):
    """>>> sf(np.array([0., -np.inf]))
    Array([0.36787945, 1.        ], dtype=float32)"""
    return _right._cdf(-x, -loc, scale)


def _logsf(x, loc=0, scale=1):
    """>>> logsf(np.array([0., -2.]))
    Array([-1.        , -0.13533528], dtype=float32)"""
    return _right._logcdf(-x, -loc, scale)


def _ppf(q, loc=0, scale=1):
    """>>> ppf(np.array([0., 0.5, 1.]))
    Array([       -inf, -0.36651292,         inf], dtype=float32)"""
    inside = (q >= 0) & (q <= 1)
    return mask_invalid(loc + scale * lnp.log(-compute_log1p(-guard(inside, q, 0.5))), inside, scale > 0)


logpdf, pdf, cdf, logcdf, sf, logsf, ppf = map(_distribution, (_logpdf, _pdf, _cdf, _logcdf, _sf, _logsf, _ppf))

_publish(globals())
