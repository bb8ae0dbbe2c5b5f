"""The distribution of one trial."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._binomial_deviance import compute_log1p
from .._stats.distribution import Distribution, mask_invalid, mask_outside

__all__ = ["cdf", "logpmf", "pmf", "ppf"]

_distribution = Distribution("bernoulli", "one trial's result")


def _logpmf(k, p, loc=0):
    """>>> logpmf(np.array([0., 1., 2.]), 0.25)
    Array([-0.2876821, -1.3862944,       -inf], dtype=float32)"""
    j = k - loc
    inside = (j == 0) | (j == 1)
    one = j == 1
    value = lnp.where(one, lnp.log(guard(one, p, 0.5)), compute_log1p(-lnp.where(one, 0.5, p)))
    return mask_invalid(mask_outside(inside, value, -np.inf, j), p >= 0, p <= 1)


def _pmf(k, p, loc=0):
    """>>> pmf(np.array([0., 1., 2.]), 0.25)
    Array([0.75, 0.25, 0.  ], dtype=float32)"""
    j = k - loc
    value = lnp.where(j == 1, p, 1.0 - p)
    return mask_invalid(mask_outside((j == 0) | (j == 1), value, 0.0, j), p >= 0, p <= 1)


def _cdf(k, p):
    """>>> cdf(np.array([0., 1., -1.]), 0.25)
    Array([0.75, 1.  , 0.  ], dtype=float32)"""
    value = lnp.where(k < 0, 0.0, lnp.where(k < 1, 1.0 - p, 1.0))
    return mask_invalid(value, p >= 0, p <= 1, k == k)


def _ppf(q, p):
    """>>> ppf(np.array([0.5, 0.9]), 0.25)
    Array([0., 1.], dtype=float32)"""
    value = lnp.where((q <= 1.0 - p) & (q < 1), 0.0, 1.0)
    return mask_invalid(lnp.where(q == 0, -1.0, value), q >= 0, q <= 1, p >= 0, p <= 1)


logpmf, pmf, cdf, ppf = map(_distribution, (_logpmf, _pmf, _cdf, _ppf))

_publish(globals())
