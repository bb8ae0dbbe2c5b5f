"""Poisson's distribution."""
from __future__ import annotations

import math

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard, horner, pick
from .._special._binomial_deviance import deviance_term, factorial_rest
from .._special._incomplete import compute_gammaincc
from .._special._xlogy import compute_xlogy
from .._stats.distribution import Distribution, exp_or_nan, mask_invalid, mask_outside

__all__ = ["cdf", "entropy", "logpmf", "pmf"]

# the entropy is log(2 pi e mu) / 2 and the sum of these with mu**-k, from k = 10 down
_FAR = (-2149.72159195, -273.605471380, -39.7784722222222, -33953 / 5040, -1375 / 1008, -863 / 2520, -9 / 80, -19 / 360,
        -1 / 24, -1 / 12, 0.0)
_TERMS = 160  # of counts, for a mean up to 60

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


def _entropy(mu, loc=0):
    """>>> entropy(np.array([0., 100.]))
    Array([0.      , 3.720686], dtype=float32)"""
    far = mu > pick(mu, 12.0, 60.0)
    near = guard(lnp.logical_not(far) & (mu >= 0), mu, 1.0)
    share = lnp.exp(-near)
    total = lnp.zeros_like(near)
    for k in range(1, _TERMS):
        share = share * near / float(k)
        total = total + share * math.lgamma(k + 1.0)
    few = near - compute_xlogy(near, near) + total
    inverse = 1.0 / guard(far, mu, 100.0)
    many = 0.5 * lnp.log(2 * math.pi * math.e * guard(far, mu, 100.0)) + horner(inverse, _FAR)
    return mask_invalid(lnp.where(far, many, few) + 0.0 * loc, mu >= 0)


logpmf, pmf, cdf = map(_distribution, (_logpmf, _pmf, _cdf))
entropy = _distribution(_entropy)

_publish(globals())
