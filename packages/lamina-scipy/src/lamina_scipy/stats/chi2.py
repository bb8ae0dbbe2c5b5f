"""The chi-squared distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._ground import within
from .._special._incomplete import gammainc_of, gammaincc_of, log_gamma_density_of
from ._laws import Law, log_of, none_at, proper, standard, supported

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_law = Law("chi2", "the chi-squared distribution", df="real array, above 0: the degrees of freedom")


def _logpdf(x, df, loc=0, scale=1):
    """>>> logpdf(np.array([1., -1.]), 2.)
    Array([-1.1931472,       -inf], dtype=float32)"""
    y = standard(x, loc, scale)
    inside = (y >= 0) & (y < np.inf)
    z = within(inside, y, 1.0)
    value = log_gamma_density_of(0.5 * df, 0.5 * z) - lnp.log(2.0 * scale)
    return proper(supported(inside, value, -np.inf, y), df > 0, scale > 0)


def _pdf(x, df, loc=0, scale=1):
    """>>> pdf(np.array([1., -1.]), 2.)
    Array([0.30326533, 0.        ], dtype=float32)"""
    end = (standard(x, loc, scale) == 0) & (df > 2)
    return none_at(end, _logpdf, x, loc + scale, df, loc, scale)


def _shares(x, df, loc, scale):
    """Places, whether they are above the lower end, and the shares below and above them; elsewhere those of another place."""
    y = standard(x, loc, scale)
    inside = (y > 0) | ((y == 0) & (df >= 2))  # at the end, where the density is not infinite there
    z = within(inside, y, 1.0)
    return y, inside, gammainc_of(0.5 * df, 0.5 * z), gammaincc_of(0.5 * df, 0.5 * z)


def _cdf(x, df, loc=0, scale=1):
    """>>> cdf(np.array([1., -1.]), 2.)
    Array([0.39346933, 0.        ], dtype=float32)"""
    y, inside, below, _ = _shares(x, df, loc, scale)
    return proper(supported(inside, below, 0.0, y), df > 0, scale > 0)


def _logcdf(x, df, loc=0, scale=1):
    """>>> logcdf(np.array([1., -1.]), 2.)
    Array([-0.93275213,        -inf], dtype=float32)"""
    y, inside, below, above = _shares(x, df, loc, scale)
    return proper(supported(y > 0, log_of(within(y > 0, below, 0.5), above), -np.inf, y), df > 0, scale > 0)


def _sf(x, df, loc=0, scale=1):
    """>>> sf(np.array([1., -1.]), 2.)
    Array([0.60653067, 1.        ], dtype=float32)"""
    y, inside, _, above = _shares(x, df, loc, scale)
    return proper(supported(inside, above, 1.0, y), df > 0, scale > 0)


def _logsf(x, df, loc=0, scale=1):
    """>>> logsf(np.array([1., -1.]), 2.)
    Array([-0.5, 0. ], dtype=float32)"""
    y, inside, below, above = _shares(x, df, loc, scale)
    return proper(supported(inside, log_of(above, below), 0.0, y), df > 0, scale > 0)


logpdf = _law(_logpdf)
pdf = _law(_pdf)
cdf = _law(_cdf)
logcdf = _law(_logcdf)
sf = _law(_sf)
logsf = _law(_logsf)

_publish(globals())
