"""The beta distribution, on [0, 1]."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._ground import within
from .._special._incomplete import betainc_of, log_beta_density_of
from ._laws import Law, exponential, log_of, proper, standard, supported

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_law = Law("beta", "the beta distribution, on [0, 1]",
           a="real array, above 0: the weight at 1",
           b="real array, above 0: the weight at 0")


def _logpdf(x, a, b, loc=0, scale=1):
    """>>> logpdf(np.array([0.25, 2.]), 2., 3.)
    Array([0.5232483,      -inf], dtype=float32)"""
    y = standard(x, loc, scale)
    inside = (y >= 0) & (y <= 1)
    z = within(inside, y, 0.5)
    value = log_beta_density_of(a, b, z) - lnp.log(scale)
    return proper(supported(inside, value, -np.inf, y), a > 0, b > 0, scale > 0)


def _pdf(x, a, b, loc=0, scale=1):
    """>>> pdf(np.array([0.25, 2.]), 2., 3.)
    Array([1.6875002, 0.       ], dtype=float32)"""
    return exponential(_logpdf(x, a, b, loc, scale))


def _cdf(x, a, b, loc=0, scale=1):
    """>>> cdf(np.array([0.25, 2.]), 2., 3.)
    Array([0.26171875, 1.        ], dtype=float32)"""
    return proper(betainc_of(a, b, lnp.clip(standard(x, loc, scale), 0.0, 1.0)), a > 0, b > 0, scale > 0)


def _logcdf(x, a, b, loc=0, scale=1):
    """>>> logcdf(np.array([0.25, 2.]), 2., 3.)
    Array([-1.3404849, -0.       ], dtype=float32)"""
    return log_of(_cdf(x, a, b, loc, scale), _sf(x, a, b, loc, scale))


def _sf(x, a, b, loc=0, scale=1):
    """>>> sf(np.array([0.25, 2.]), 2., 3.)
    Array([0.73828125, 0.        ], dtype=float32)"""
    y = lnp.clip(standard(x, loc, scale), 0.0, 1.0)
    near = (y < 0.5) & (_logpdf(y, a, b) > 0)  # what 1 - y rounds away is much where the density is high
    share = betainc_of(lnp.where(near, a, b), lnp.where(near, b, a), lnp.where(near, y, 1.0 - y))
    return proper(lnp.where(near, 1.0 - share, share), a > 0, b > 0, scale > 0)


def _logsf(x, a, b, loc=0, scale=1):
    """>>> logsf(np.array([0.25, 2.]), 2., 3.)
    Array([-0.30343044,        -inf], dtype=float32)"""
    return log_of(_sf(x, a, b, loc, scale), _cdf(x, a, b, loc, scale))


logpdf = _law(_logpdf)
pdf = _law(_pdf)
cdf = _law(_cdf)
logcdf = _law(_logcdf)
sf = _law(_sf)
logsf = _law(_logsf)

_publish(globals())
