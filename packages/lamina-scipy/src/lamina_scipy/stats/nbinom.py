"""The negative binomial distribution: failures before the n-th success."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import within
from .._special._binomial_deviance import drop_of, rest_of
from ._distribution import Distribution, exponential, proper, supported

__all__ = ["logpmf", "pmf"]

_distribution = Distribution("nbinom", "the failures before the n-th success",
                             n="real array, above 0: how many successes",
                             p="real array, above 0, up to 1: the probability of a success")


def _logpmf(k, n, p, loc=0):
    """>>> logpmf(np.array([0., 1., -1.]), 2., 0.5)
    Array([-1.3862944, -1.3862944,       -inf], dtype=float32)"""
    j = k - loc
    inside = (j >= 0) & (j == lnp.floor(j)) & (j < np.inf)
    i, q = within(inside, j, 0.0), 1.0 - p
    m, over = n + i, n * q - i * p
    value = (drop_of(n, m * p, -over) + drop_of(i, m * q, over) + (rest_of(m) - rest_of(n) - rest_of(i)) + lnp.log(n / m))
    return proper(supported(inside, value, -np.inf, j), n > 0, p > 0, p <= 1)


def _pmf(k, n, p, loc=0):
    """>>> pmf(np.array([0., 1., -1.]), 2., 0.5)
    Array([0.25, 0.25, 0.  ], dtype=float32)"""
    return exponential(_logpmf(k, n, p, loc))


logpmf, pmf = map(_distribution, (_logpmf, _pmf))

_publish(globals())
