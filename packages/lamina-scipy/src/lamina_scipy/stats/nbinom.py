"""The negative binomial distribution: failures before the n-th success."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._binomial_deviance import deviance_term, factorial_rest
from .._stats.distribution import Distribution, exp_or_nan, mask_invalid, mask_outside

__all__ = ["logpmf", "pmf"]

_distribution = Distribution("nbinom", "the failures before the n-th success",
                             n="real array, above 0: how many successes",
                             p="real array, above 0, up to 1: the probability of a success")


def _logpmf(k, n, p, loc=0):
    """>>> logpmf(np.array([0., 1., -1.]), 2., 0.5)
    Array([-1.3862944, -1.3862944,       -inf], dtype=float32)"""
    j = k - loc
    inside = (j >= 0) & (j == lnp.floor(j)) & (j < np.inf)
    i, q = guard(inside, j, 0.0), 1.0 - p
    m, over = n + i, n * q - i * p
    value = (deviance_term(n, m * p, -over) + deviance_term(i, m * q, over)
             + (factorial_rest(m) - factorial_rest(n) - factorial_rest(i)) + lnp.log(n / m))
    return mask_invalid(mask_outside(inside, value, -np.inf, j), n > 0, p > 0, p <= 1)


def _pmf(k, n, p, loc=0):
    """>>> pmf(np.array([0., 1., -1.]), 2., 0.5)
    Array([0.25, 0.25, 0.  ], dtype=float32)"""
    return exp_or_nan(_logpmf(k, n, p, loc))


logpmf, pmf = map(_distribution, (_logpmf, _pmf))

_publish(globals())
