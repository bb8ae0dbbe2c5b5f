"""The binomial distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._binomial_deviance import deviance_term, factorial_rest
from .._stats.distribution import Distribution, exp_or_nan, mask_invalid, mask_outside

__all__ = ["logpmf", "pmf"]

_distribution = Distribution("binom", "the binomial distribution",
                             n="real array of integers, not negative: number of trials")


def _logpmf(k, n, p, loc=0):
    """>>> logpmf(np.array([0., 1., 3.]), 2., 0.5)
    Array([-1.3862944, -0.6931472,       -inf], dtype=float32)"""
    j = k - loc
    inside = (j >= 0) & (j <= n) & (j == lnp.floor(j))
    i, m = guard(inside, j, 0.0), guard(n >= 0, n, 0.0)
    rest, q = m - i, 1.0 - p
    over = i * q - rest * p
    value = (deviance_term(i, m * p, -over) + deviance_term(rest, m * q, over)
             + (factorial_rest(m) - factorial_rest(i) - factorial_rest(rest)))
    return mask_invalid(mask_outside(inside, value, -np.inf, j), n >= 0, n == lnp.floor(n), p >= 0, p <= 1)


def _pmf(k, n, p, loc=0):
    """>>> pmf(np.array([0., 1., 3.]), 2., 0.5)
    Array([0.25, 0.5 , 0.  ], dtype=float32)"""
    return exp_or_nan(_logpmf(k, n, p, loc))


logpmf, pmf = map(_distribution, (_logpmf, _pmf))

_publish(globals())
