"""Pareto's distribution, from 1 up."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import within
from .._special._binomial_deviance import log1p_of
from ._distribution import Distribution, exponential, from_end, one_less, proper, complement_of_exp, supported

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_distribution = Distribution("pareto", "Pareto's distribution, from 1 up", b="real array, above 0: its exponent")


def _log_place(x, loc, scale):
    """log((x - loc) / scale), by the distance from the end at 1, which is not lost to rounding; 0 below."""
    return log1p_of(from_end(((x - loc) - scale) / scale))


def _log_share(x, b, loc, scale):
    """The logarithm of the share beyond a place; at the end none is below, of an infinite exponent too."""
    place = _log_place(x, loc, scale)
    return 0.0 - within((place != 0) | (b < np.inf), b, 1.0) * place


def _logpdf(x, b, loc=0, scale=1):
    """>>> logpdf(np.array([1., 0.5]), 2.)
    Array([0.6931472,      -inf], dtype=float32)"""
    y = ((x - loc) - scale) / scale
    whole = b == np.inf  # all of the mass is at the end
    c = lnp.where(whole, 1.0, b)
    value = lnp.log(c) - (c + 1.0) * log1p_of(within(y >= 0, y, 0.0)) - lnp.log(scale)
    value = lnp.where(whole, lnp.where(y > 0, -np.inf, np.inf), value)
    return proper(supported(y >= 0, value, -np.inf, y), b > 0, scale > 0)


def _pdf(x, b, loc=0, scale=1):
    """>>> pdf(np.array([1., 0.5]), 2.)
    Array([2., 0.], dtype=float32)"""
    return exponential(_logpdf(x, b, loc, scale))


def _logsf(x, b, loc=0, scale=1):
    """>>> logsf(np.array([2., 0.5]), 1.)
    Array([-0.6931472,  0.       ], dtype=float32)"""
    return proper(_log_share(x, b, loc, scale), b > 0, scale > 0)


def _sf(x, b, loc=0, scale=1):
    """>>> sf(np.array([2., 0.5]), 1.)
    Array([0.5, 1. ], dtype=float32)"""
    return exponential(_logsf(x, b, loc, scale))


def _cdf(x, b, loc=0, scale=1):
    """>>> cdf(np.array([2., 0.5]), 1.)
    Array([0.5, 0. ], dtype=float32)"""
    return proper(complement_of_exp(_log_share(x, b, loc, scale)), b > 0, scale > 0)


def _logcdf(x, b, loc=0, scale=1):
    """>>> logcdf(np.array([2., 0.5]), 1.)
    Array([-0.6931472,       -inf], dtype=float32)"""
    return one_less(_logsf(x, b, loc, scale))


def _ppf(q, b, loc=0, scale=1):
    """>>> ppf(np.array([0., 0.5, 1.]), 1.)
    Array([ 1.,  2., inf], dtype=float32)"""
    inside = (q >= 0) & (q <= 1)
    share = within(inside & (b < np.inf), q, 0.0)
    return proper(loc + scale * lnp.exp(-log1p_of(-share) / b), inside, b > 0, scale > 0)


logpdf, pdf, cdf, logcdf, sf, logsf, ppf = map(_distribution, (_logpdf, _pdf, _cdf, _logcdf, _sf, _logsf, _ppf))

_publish(globals())
