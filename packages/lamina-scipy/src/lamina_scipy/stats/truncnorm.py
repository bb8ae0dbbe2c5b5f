"""The normal distribution cut off at both sides."""
from __future__ import annotations

import functools
import math
import operator

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish
from lamina_tracing.extend import typeof

from .._util import guard
from .._special._binomial_deviance import compute_log1p
from .._special._normal import compute_log_ndtr, compute_ndtr
from .._stats.distribution import Distribution, exp_or_nan, log1mexp, log_difference, mask_invalid, mask_outside, standardize

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_distribution = Distribution("truncnorm", "the normal distribution cut off at both sides",
                             a="real array: the lower end, in units of the width, relative to the location",
                             b="real array: the upper end, likewise")


def _log_mass(a, b):
    """Return the logarithm of the share of the normal distribution from a to b.

    It is computed from the tail that both are in. Where the two are near each other, shares of tails would leave few
    digits, so there the density is summed up."""
    width, middle = b - a, 0.5 * (a + b)
    narrow = width * lnp.maximum(lnp.abs(middle), 1.0) < 1.0
    near = _log_mass_narrow(guard(narrow, width, 0.5), guard(narrow, middle, 0.0))
    right, left = a > 0, b < 0
    low, high = lnp.where(right, -b, a), lnp.where(right, -a, b)
    tail = (right | left) & ~narrow
    below, ends = compute_log_ndtr(lnp.where(tail, high, -1.0)), low > -np.inf
    end = lnp.where(tail & ends, low, lnp.where(tail, high - 1.0, -2.0))
    one_side = lnp.where(ends, log_difference(below, compute_log_ndtr(end)), below)
    whole = tail | narrow
    both = compute_log1p(-compute_ndtr(lnp.where(whole, -1.0, a)) - compute_ndtr(lnp.where(whole, -1.0, -b)))
    return lnp.where(narrow, near, lnp.where(tail, one_side, both))


def _log_mass_narrow(width, middle):
    """Gauss and Legendre's sum of `exp(-(middle + t)**2 / 2)` over the width: 4 places leave 6e-10 of it, 6 places 2e-16."""
    places, weights = np.polynomial.legendre.leggauss(6 if typeof(width).dtype.itemsize > 4 else 4)
    parts = []
    for place, weight in zip(places.tolist(), weights.tolist()):
        t = width * (0.5 * place)
        parts.append(0.5 * weight * lnp.exp(-t * (middle + 0.5 * t)))
    return lnp.log(width * functools.reduce(operator.add, parts)) - 0.5 * middle * middle - 0.5 * math.log(2 * math.pi)


def _logpdf(x, a, b, loc=0, scale=1):
    """>>> logpdf(np.array([0., 3.]), -1., 2.)
    Array([-0.71877223,        -inf], dtype=float32)"""
    y = standardize(x, loc, scale)
    inside = (y >= a) & (y <= b)
    z = guard(inside, y, 0.0)
    value = -0.5 * z * z - 0.5 * math.log(2 * math.pi) - lnp.log(scale) - _log_mass(a, b)
    return mask_invalid(mask_outside(inside, value, -np.inf, y), a < b, scale > 0)


def _pdf(x, a, b, loc=0, scale=1):
    """>>> pdf(np.array([0., 3.]), -1., 2.)
    Array([0.48735026, 0.        ], dtype=float32)"""
    return exp_or_nan(_logpdf(x, a, b, loc, scale))


def _logcdf(x, a, b, loc=0, scale=1):
    """>>> logcdf(np.array([0., 3.]), -1., 2.)
    Array([-0.8746961,  0.       ], dtype=float32)"""
    y = standardize(x, loc, scale)
    inside = (y > a) & (y < b)
    z, low, high = guard(inside, y, 0.0), guard(inside, a, -1.0), guard(inside, b, 1.0)
    whole = _log_mass(low, high)
    below, above = _log_mass(low, z) - whole, _log_mass(z, high) - whole
    value = lnp.where(below > -0.5, log1mexp(above), below)
    return mask_invalid(mask_outside(inside, value, lnp.where(y >= b, 0.0, -np.inf), y), a < b, scale > 0)


def _cdf(x, a, b, loc=0, scale=1):
    """>>> cdf(np.array([0., 3.]), -1., 2.)
    Array([0.41698873, 1.        ], dtype=float32)"""
    return exp_or_nan(_logcdf(x, a, b, loc, scale))


def _logsf(x, a, b, loc=0, scale=1):
    """>>> logsf(np.array([0., 3.]), -1., 2.)
    Array([-0.5395488,       -inf], dtype=float32)"""
    return _logcdf(-x, -b, -a, -loc, scale)


def _sf(x, a, b, loc=0, scale=1):
    """>>> sf(np.array([0., 3.]), -1., 2.)
    Array([0.5830112, 0.       ], dtype=float32)"""
    return exp_or_nan(_logsf(x, a, b, loc, scale))


logpdf, pdf, logcdf, cdf, logsf, sf = map(_distribution, (_logpdf, _pdf, _logcdf, _cdf, _logsf, _sf))

_publish(globals())
