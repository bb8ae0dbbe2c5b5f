"""The beta distribution, on [0, 1]."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._log_densities import compute_log_beta_density
from .._special._incomplete import compute_betainc
from .._special._log_incomplete import beta_log_above, beta_log_below, beta_shares
from .._stats.distribution import Distribution, mask_invalid, mask_outside, standardize, zero_at_end

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_distribution = Distribution("beta", "the beta distribution, on [0, 1]",
                             a="real array, above 0: the weight at 1",
                             b="real array, above 0: the weight at 0")


def _logpdf(x, a, b, loc=0, scale=1):
    """>>> logpdf(np.array([0.25, 2.]), 2., 3.)
    Array([0.5232483,      -inf], dtype=float32)"""
    y = standardize(x, loc, scale)
    inside = (y >= 0) & (y <= 1)
    z = guard(inside, y, 0.5)
    value = compute_log_beta_density(a, b, z) - lnp.log(scale)
    return mask_invalid(mask_outside(inside, value, -np.inf, y), a > 0, b > 0, scale > 0)


def _pdf(x, a, b, loc=0, scale=1):
    """>>> pdf(np.array([0.25, 2.]), 2., 3.)
    Array([1.6875002, 0.       ], dtype=float32)"""
    y = standardize(x, loc, scale)
    end = ((y == 0) & (a > 1)) | ((y == 1) & (b > 1))
    return zero_at_end(end, _logpdf, x, loc + 0.5 * scale, a, b, loc, scale)


def _place(x, a, b, loc, scale):
    """Places, whether they are in the support, and those that are, elsewhere another one. An end is inside where the density is
    not infinite there."""
    y = standardize(x, loc, scale)
    inside = ((y > 0) & (y < 1)) | ((y == 0) & (a >= 1)) | ((y == 1) & (b >= 1))
    return y, inside, guard(inside, y, 0.5)


def _cdf(x, a, b, loc=0, scale=1):
    """>>> cdf(np.array([0.25, 2.]), 2., 3.)
    Array([0.26171875, 1.        ], dtype=float32)"""
    y, inside, z = _place(x, a, b, loc, scale)
    return mask_invalid(mask_outside(inside, compute_betainc(a, b, z), lnp.where(y > 0.5, 1.0, 0.0), y), a > 0, b > 0,
                        scale > 0)


def _logcdf(x, a, b, loc=0, scale=1):
    """>>> logcdf(np.array([0.25, 2.]), 2., 3.)
    Array([-1.3404849,  0.       ], dtype=float32)"""
    y, inside, z = _place(x, a, b, loc, scale)
    return mask_invalid(mask_outside(inside, beta_log_below(a, b, z), lnp.where(y > 0.5, 0.0, -np.inf), y), a > 0,
                        b > 0, scale > 0)


def _sf(x, a, b, loc=0, scale=1):
    """>>> sf(np.array([0.25, 2.]), 2., 3.)
    Array([0.73828125, 0.        ], dtype=float32)"""
    y, inside, z = _place(x, a, b, loc, scale)
    return mask_invalid(mask_outside(inside, beta_shares(a, b, z)[1], lnp.where(y > 0.5, 0.0, 1.0), y), a > 0, b > 0,
                        scale > 0)


def _logsf(x, a, b, loc=0, scale=1):
    """>>> logsf(np.array([0.25, 2.]), 2., 3.)
    Array([-0.30343044,        -inf], dtype=float32)"""
    y, inside, z = _place(x, a, b, loc, scale)
    return mask_invalid(mask_outside(inside, beta_log_above(a, b, z), lnp.where(y > 0.5, -np.inf, 0.0), y), a > 0,
                        b > 0, scale > 0)


logpdf, pdf, cdf, logcdf, sf, logsf = map(_distribution, (_logpdf, _pdf, _cdf, _logcdf, _sf, _logsf))

_publish(globals())
