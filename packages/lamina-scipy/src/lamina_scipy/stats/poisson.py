"""Poisson's distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._binomial_deviance import deviance_term, factorial_rest
from .._special._incomplete import compute_gammaincc
from ._distribution import Distribution, exp_or_nan, mask_invalid, mask_outside

__all__ = ["cdf", "logpmf", "pmf"]

_distribution = Distribution("poisson", "Poisson's distribution", mu="real array, none below 0: its mean")


def _logpmf(k, mu, loc=0):
    """>>> logpmf(np.array([0., 1., -1.]), 2.)
    Array([-2.       , -1.3068528,       -inf], dtype=float32)"""
    j = k - loc
    inside = (j >= 0) & (j == lnp.floor(j)) & (j < np.inf)
    i = guard(inside, j, 0.0)
    return mask_invalid(mask_outside(inside, deviance_term(i, mu, mu - i) - factorial_rest(i), -np.inf, j), mu >= 0)


def _pmf(k, mu, loc=0):
    """>>> pmf(np.array([0., 1., -1.]), 2.)
    Array([0.13533528, 0.27067056, 0.        ], dtype=float32)"""
    return exp_or_nan(_logpmf(k, mu, loc))


def _cdf(k, mu, loc=0):
    """>>> cdf(np.array([0., 1., -1.]), 2.)
    Array([0.13533528, 0.40600586, 0.        ], dtype=float32)"""
    j = lnp.floor(k - loc)
    value = compute_gammaincc(guard(j >= 0, j, 0.0) + 1.0, mu)
    return mask_invalid(mask_outside(j >= 0, value, 0.0, j), mu >= 0)


logpmf, pmf, cdf = map(_distribution, (_logpmf, _pmf, _cdf))

_publish(globals())
