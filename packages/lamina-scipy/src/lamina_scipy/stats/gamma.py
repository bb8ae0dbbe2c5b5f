"""The gamma distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._log_densities import compute_log_gamma_density
from .._special._incomplete import compute_gammainc, compute_gammaincc
from .._special._log_incomplete import gamma_log_above, gamma_log_below
from .._stats.distribution import Distribution, mask_invalid, mask_outside, standardize, zero_at_end

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_distribution = Distribution("gamma", "the gamma distribution", a="real array, above 0: its shape")


def _logpdf(x, a, loc=0, scale=1):
    """>>> logpdf(np.array([1., -1.]), 2.)
    Array([ -1., -inf], dtype=float32)"""
    y = standardize(x, loc, scale)
    inside = (y >= 0) & (y < np.inf)
    z = guard(inside, y, 1.0)
    value = compute_log_gamma_density(a, z) - lnp.log(scale)
    return mask_invalid(mask_outside(inside, value, -np.inf, y), a > 0, scale > 0)


def _pdf(x, a, loc=0, scale=1):
    """>>> pdf(np.array([1., -1.]), 2.)
    Array([0.36787945, 0.        ], dtype=float32)"""
    end = (standardize(x, loc, scale) == 0) & (a > 1)
    return zero_at_end(end, _logpdf, x, loc + scale, a, loc, scale)


def _place(x, a, loc, scale):
    """Places, whether they are above the lower end, and those that are, elsewhere another one."""
    y = standardize(x, loc, scale)
    inside = (y > 0) | ((y == 0) & (a >= 1))  # at the end, where the density is not infinite there
    return y, inside, guard(inside, y, 1.0)


def _cdf(x, a, loc=0, scale=1):
    """>>> cdf(np.array([1., -1.]), 2.)
    Array([0.26424113, 0.        ], dtype=float32)"""
    y, inside, z = _place(x, a, loc, scale)
    return mask_invalid(mask_outside(inside, compute_gammainc(a, z), 0.0, y), a > 0, scale > 0)


def _logcdf(x, a, loc=0, scale=1):
    """>>> logcdf(np.array([1., -1.]), 2.)
    Array([-1.3308933,       -inf], dtype=float32)"""
    y, inside, z = _place(x, a, loc, scale)
    return mask_invalid(mask_outside(inside, gamma_log_below(a, z), -np.inf, y), a > 0, scale > 0)


def _sf(x, a, loc=0, scale=1):
    """>>> sf(np.array([1., -1.]), 2.)
    Array([0.7357589, 1.       ], dtype=float32)"""
    y, inside, z = _place(x, a, loc, scale)
    return mask_invalid(mask_outside(inside, compute_gammaincc(a, z), 1.0, y), a > 0, scale > 0)


def _logsf(x, a, loc=0, scale=1):
    """>>> logsf(np.array([1., -1.]), 2.)
    Array([-0.3068528,  0.       ], dtype=float32)"""
    y, inside, z = _place(x, a, loc, scale)
    return mask_invalid(mask_outside(inside, gamma_log_above(a, z), 0.0, y), a > 0, scale > 0)


logpdf, pdf, cdf, logcdf, sf, logsf = map(_distribution, (_logpdf, _pdf, _cdf, _logcdf, _sf, _logsf))

_publish(globals())
