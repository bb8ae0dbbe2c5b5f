"""Pareto's distribution, from 1 up."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._ground import within
from ._laws import Law, exponential, one_less, proper, supported

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_law = Law("pareto", "Pareto's distribution, from 1 up", b="real array, above 0: its exponent")


def _log_place(x, loc, scale):
    """log((x - loc) / scale), by the distance from the end at 1, which is not rounded away beside it; 0 below."""
    return lnp.log1p(lnp.maximum(((x - loc) - scale) / scale, 0.0))


def _logpdf(x, b, loc=0, scale=1):
    """>>> logpdf(np.array([1., 0.5]), 2.)
    Array([0.6931472,      -inf], dtype=float32)"""
    y = ((x - loc) - scale) / scale
    value = lnp.log(b) - (b + 1.0) * lnp.log1p(within(y >= 0, y, 0.0)) - lnp.log(scale)
    return proper(supported(y >= 0, value, -np.inf, y), b > 0, scale > 0)


def _pdf(x, b, loc=0, scale=1):
    """>>> pdf(np.array([1., 0.5]), 2.)
    Array([2., 0.], dtype=float32)"""
    return exponential(_logpdf(x, b, loc, scale))


def _logsf(x, b, loc=0, scale=1):
    """>>> logsf(np.array([2., 0.5]), 1.)
    Array([-0.6931472,  0.       ], dtype=float32)"""
    return proper(0.0 - b * _log_place(x, loc, scale), b > 0, scale > 0)


def _sf(x, b, loc=0, scale=1):
    """>>> sf(np.array([2., 0.5]), 1.)
    Array([0.5, 1. ], dtype=float32)"""
    return exponential(_logsf(x, b, loc, scale))


def _cdf(x, b, loc=0, scale=1):
    """>>> cdf(np.array([2., 0.5]), 1.)
    Array([0.5, 0. ], dtype=float32)"""
    return proper(-lnp.expm1(-b * _log_place(x, loc, scale)), b > 0, scale > 0)


def _logcdf(x, b, loc=0, scale=1):
    """>>> logcdf(np.array([2., 0.5]), 1.)
    Array([-0.6931472,       -inf], dtype=float32)"""
    return one_less(_logsf(x, b, loc, scale))


def _ppf(q, b, loc=0, scale=1):
    """>>> ppf(np.array([0., 0.5, 1.]), 1.)
    Array([ 1.,  2., inf], dtype=float32)"""
    inside = (q >= 0) & (q <= 1)
    return proper(loc + scale * lnp.exp(-lnp.log1p(-within(inside, q, 0.0)) / b), inside, b > 0, scale > 0)


logpdf = _law(_logpdf)
pdf = _law(_pdf)
cdf = _law(_cdf)
logcdf = _law(_logcdf)
sf = _law(_sf)
logsf = _law(_logsf)
ppf = _law(_ppf)

_publish(globals())
