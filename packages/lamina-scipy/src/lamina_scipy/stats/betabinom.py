"""The beta-binomial distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._binomial_deviance import deviance_term, factorial_rest
from .._stats.distribution import Distribution, exp_or_nan, mask_invalid, mask_outside

__all__ = ["logpmf", "pmf"]

_distribution = Distribution("betabinom", "the beta-binomial distribution",
                             n="real array of whole numbers, none below 0: how many trials",
                             a="real array, above 0: the weight of successes",
                             b="real array, above 0: the weight of failures")


def _logpmf(k, n, a, b, loc=0):
    """>>> logpmf(np.array([0., 1., 3.]), 2., 1., 1.)
    Array([-1.0986123, -1.0986123,       -inf], dtype=float32)"""
    j = k - loc
    inside = (j >= 0) & (j <= n) & (j == lnp.floor(j))
    i, m = guard(inside, j, 0.0), guard(n >= 0, n, 0.0)
    rest, c, f, both, total = m - i, i + a, m - i + b, a + b, m + a + b
    # Three binomial probabilities of one share of successes, c / total; its powers cancel.
    over = (i * b - rest * a) / total
    share, other = c / total, f / total
    deviances = (deviance_term(i, m * share, -over) + deviance_term(rest, m * other, over)
                 + deviance_term(a, both * share, over) + deviance_term(b, both * other, -over))
    more, less = factorial_rest(lnp.stack([m, both, c, f])), factorial_rest(lnp.stack([i, rest, a, b, total]))
    value = deviances + (lnp.sum(more, 0) - lnp.sum(less, 0)) + lnp.log(a / c) + lnp.log((b / f) * (total / both))
    return mask_invalid(mask_outside(inside, value, -np.inf, j), n >= 0, n == lnp.floor(n), a > 0, b > 0)


def _pmf(k, n, a, b, loc=0):
    """>>> pmf(np.array([0., 1., 3.]), 2., 1., 1.)
    Array([0.3333333, 0.3333333, 0.       ], dtype=float32)"""
    return exp_or_nan(_logpmf(k, n, a, b, loc))


logpmf, pmf = map(_distribution, (_logpmf, _pmf))

_publish(globals())
