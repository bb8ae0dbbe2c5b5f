"""The geometric distribution: trials up to the first success."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._xlogy import compute_xlog1py
from .._stats.distribution import Distribution, exp_or_nan, mask_invalid, mask_outside

__all__ = ["logpmf", "pmf"]

_distribution = Distribution("geom", "the trials up to the first success",
                             p="real array, above 0, up to 1: the probability of a success")


def _logpmf(k, p, loc=0):
    """>>> logpmf(np.array([1., 2., 0.]), 0.5)
    Array([-0.6931472, -1.3862944,       -inf], dtype=float32)"""
    j = k - loc
    inside = (j >= 1) & (j == lnp.floor(j))
    value = lnp.log(p) + compute_xlog1py(guard(inside, j, 1.0) - 1.0, -p)
    return mask_invalid(mask_outside(inside, value, -np.inf, j), p > 0, p <= 1)


def _pmf(k, p, loc=0):
    """>>> pmf(np.array([1., 2., 0.]), 0.5)
    Array([0.5 , 0.25, 0.  ], dtype=float32)"""
    return exp_or_nan(_logpmf(k, p, loc))


logpmf, pmf = map(_distribution, (_logpmf, _pmf))

_publish(globals())
