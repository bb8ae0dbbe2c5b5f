"""The chi-squared distribution: the gamma distribution of half the degrees of freedom, twice as wide."""
from __future__ import annotations

from lamina_numpy.extend import publish as _publish

from . import gamma as _gamma
from ._distribution import Law

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_law = Law("chi2", "the chi-squared distribution", df="real array, above 0: the degrees of freedom")


def _logpdf(x, df, loc=0, scale=1):
    """>>> logpdf(np.array([1., -1.]), 2.)
    Array([-1.1931472,       -inf], dtype=float32)"""
    return _gamma._logpdf(x, 0.5 * df, loc, 2.0 * scale)


def _pdf(x, df, loc=0, scale=1):
    """>>> pdf(np.array([1., -1.]), 2.)
    Array([0.30326533, 0.        ], dtype=float32)"""
    return _gamma._pdf(x, 0.5 * df, loc, 2.0 * scale)


def _cdf(x, df, loc=0, scale=1):
    """>>> cdf(np.array([1., -1.]), 2.)
    Array([0.39346933, 0.        ], dtype=float32)"""
    return _gamma._cdf(x, 0.5 * df, loc, 2.0 * scale)


def _logcdf(x, df, loc=0, scale=1):
    """>>> logcdf(np.array([1., -1.]), 2.)
    Array([-0.93275213,        -inf], dtype=float32)"""
    return _gamma._logcdf(x, 0.5 * df, loc, 2.0 * scale)


def _sf(x, df, loc=0, scale=1):
    """>>> sf(np.array([1., -1.]), 2.)
    Array([0.60653067, 1.        ], dtype=float32)"""
    return _gamma._sf(x, 0.5 * df, loc, 2.0 * scale)


def _logsf(x, df, loc=0, scale=1):
    """>>> logsf(np.array([1., -1.]), 2.)
    Array([-0.5, 0. ], dtype=float32)"""
    return _gamma._logsf(x, 0.5 * df, loc, 2.0 * scale)


logpdf = _law(_logpdf)
pdf = _law(_pdf)
cdf = _law(_cdf)
logcdf = _law(_logcdf)
sf = _law(_sf)
logsf = _law(_logsf)

_publish(globals())
