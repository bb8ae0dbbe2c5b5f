"""Pareto's distribution, from 1 up."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._binomial_deviance import compute_log1p
from .._stats.distribution import Distribution, clip_at_end, exp_complement, exp_or_nan, log1mexp, mask_invalid, mask_outside

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_distribution = Distribution("pareto", "Pareto's distribution, from 1 up", b="real array, above 0: its exponent")


def _log_place(x, loc, scale):
    """log((x - loc) / scale), by the distance from the end at 1, which is not lost to rounding; 0 below."""
    return compute_log1p(clip_at_end(((x - loc) - scale) / scale))


def _log_share(x, b, loc, scale):
    """The logarithm of the share beyond a place; at the end none is below, of an infinite exponent too."""
    place = _log_place(x, loc, scale)
    return 0.0 - guard((place != 0) | (b < np.inf), b, 1.0) * place


def _logpdf(x, b, loc=0, scale=1):
    """>>> logpdf(np.array([1., 0.5]), 2.)
    Array([0.6931472,      -inf], dtype=float32)"""
    y = ((x - loc) - scale) / scale
    whole = b == np.inf  # all of the mass is at the end
    c = lnp.where(whole, 1.0, b)
    value = lnp.log(c) - (c + 1.0) * compute_log1p(guard(y >= 0, y, 0.0)) - lnp.log(scale)
    value = lnp.where(whole, lnp.where(y > 0, -np.inf, np.inf), value)
    return mask_invalid(mask_outside(y >= 0, value, -np.inf, y), b > 0, scale > 0)


def _pdf(x, b, loc=0, scale=1):
    """>>> pdf(np.array([1., 0.5]), 2.)
    Array([2., 0.], dtype=float32)"""
    return exp_or_nan(_logpdf(x, b, loc, scale))


def _logsf(x, b, loc=0, scale=1):
    """>>> logsf(np.array([2., 0.5]), 1.)
    Array([-0.6931472,  0.       ], dtype=float32)"""
    return mask_invalid(_log_share(x, b, loc, scale), b > 0, scale > 0)


def _sf(x, b, loc=0, scale=1):
    """>>> sf(np.array([2., 0.5]), 1.)
    Array([0.5, 1. ], dtype=float32)"""
    return exp_or_nan(_logsf(x, b, loc, scale))


def _cdf(x, b, loc=0, scale=1):
    """>>> cdf(np.array([2., 0.5]), 1.)
    Array([0.5, 0. ], dtype=float32)"""
    return mask_invalid(exp_complement(_log_share(x, b, loc, scale)), b > 0, scale > 0)


def _logcdf(x, b, loc=0, scale=1):
    """>>> logcdf(np.array([2., 0.5]), 1.)
    Array([-0.6931472,       -inf], dtype=float32)"""
    return log1mexp(_logsf(x, b, loc, scale))


def _ppf(q, b, loc=0, scale=1):
    """>>> ppf(np.array([0., 0.5, 1.]), 1.)
    Array([ 1.,  2., inf], dtype=float32)"""
    inside = (q >= 0) & (q <= 1)
    share = guard(inside & (b < np.inf), q, 0.0)
    return mask_invalid(loc + scale * lnp.exp(-compute_log1p(-share) / b), inside, b > 0, scale > 0)


logpdf, pdf, cdf, logcdf, sf, logsf, ppf = map(_distribution, (_logpdf, _pdf, _cdf, _logcdf, _sf, _logsf, _ppf))

_publish(globals())
