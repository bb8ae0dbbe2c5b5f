"""The beta-binomial distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import within
from .._special._binomial_deviance import drop_of, rest_of
from ._distribution import Distribution, exponential, proper, supported

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
    i, m = within(inside, j, 0.0), within(n >= 0, n, 0.0)
    rest, c, f, both, total = m - i, i + a, m - i + b, a + b, m + a + b
    # Three binomial probabilities of one share of successes, c / total; its powers cancel.
    over = (i * b - rest * a) / total
    share, other = c / total, f / total
    deviances = (drop_of(i, m * share, -over) + drop_of(rest, m * other, over)
                 + drop_of(a, both * share, over) + drop_of(b, both * other, -over))
    more, less = rest_of(lnp.stack([m, both, c, f])), rest_of(lnp.stack([i, rest, a, b, total]))
    value = deviances + (lnp.sum(more, 0) - lnp.sum(less, 0)) + lnp.log(a / c) + lnp.log((b / f) * (total / both))
    return proper(supported(inside, value, -np.inf, j), n >= 0, n == lnp.floor(n), a > 0, b > 0)


def _pmf(k, n, a, b, loc=0):
    """>>> pmf(np.array([0., 1., 3.]), 2., 1., 1.)
    Array([0.3333333, 0.3333333, 0.       ], dtype=float32)"""
    return exponential(_logpmf(k, n, a, b, loc))


logpmf, pmf = map(_distribution, (_logpmf, _pmf))

_publish(globals())
