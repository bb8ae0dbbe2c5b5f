"""Student's distribution."""
from __future__ import annotations

import math

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._ground import within
from .._special._incomplete import betaln_of
from ._laws import Law, exponential, proper, standard

__all__ = ["logpdf", "pdf"]

_law = Law("t", "Student's distribution",
           df="real array, above 0: the degrees of freedom; infinite ones give the normal distribution")


def _logpdf(x, df, loc=0, scale=1):
    """>>> logpdf(np.array([0., 1e30]), 3.)
    Array([  -1.0008888, -275.11386  ], dtype=float32)"""
    y = lnp.abs(standard(x, loc, scale))
    normal = df == np.inf
    n = lnp.where(normal, 1.0, df)
    ratio = y / lnp.sqrt(n)
    far = ratio > 1e6
    log = lnp.where(far, 2.0 * lnp.log(within(far, ratio, 1e7)), lnp.log1p(lnp.square(lnp.where(far, 0.0, ratio))))
    value = -0.5 * (n + 1.0) * log - 0.5 * lnp.log(n) - betaln_of(0.5 * n, lnp.full_like(n, 0.5))
    limit = -0.5 * y * y - 0.5 * math.log(2 * math.pi)
    return proper(lnp.where(normal, limit, value) - lnp.log(scale), df > 0, scale > 0)


def _pdf(x, df, loc=0, scale=1):
    """>>> pdf(np.array([0., 1.]), 1.)
    Array([0.3183099 , 0.15915495], dtype=float32)"""
    return exponential(_logpdf(x, df, loc, scale))


logpdf = _law(_logpdf)
pdf = _law(_pdf)

_publish(globals())
