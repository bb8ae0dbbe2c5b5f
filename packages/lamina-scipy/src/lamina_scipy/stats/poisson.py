"""Poisson's distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import within
from .._special._binomial_deviance import drop_of, rest_of
from .._special._incomplete import gammaincc_of
from ._distribution import Distribution, exponential, proper, supported

__all__ = ["cdf", "logpmf", "pmf"]

_distribution = Distribution("poisson", "Poisson's distribution", mu="real array, none below 0: its mean")


def _logpmf(k, mu, loc=0):
    """>>> logpmf(np.array([0., 1., -1.]), 2.)
    Array([-2.       , -1.3068528,       -inf], dtype=float32)"""
    j = k - loc
    inside = (j >= 0) & (j == lnp.floor(j)) & (j < np.inf)
    i = within(inside, j, 0.0)
    return proper(supported(inside, drop_of(i, mu, mu - i) - rest_of(i), -np.inf, j), mu >= 0)


def _pmf(k, mu, loc=0):
    """>>> pmf(np.array([0., 1., -1.]), 2.)
    Array([0.13533528, 0.27067056, 0.        ], dtype=float32)"""
    return exponential(_logpmf(k, mu, loc))


def _cdf(k, mu, loc=0):
    """>>> cdf(np.array([0., 1., -1.]), 2.)
    Array([0.13533528, 0.40600586, 0.        ], dtype=float32)"""
    j = lnp.floor(k - loc)
    value = gammaincc_of(within(j >= 0, j, 0.0) + 1.0, mu)
    return proper(supported(j >= 0, value, 0.0, j), mu >= 0)


logpmf, pmf, cdf = map(_distribution, (_logpmf, _pmf, _cdf))

_publish(globals())
