"""Cauchy's distribution wrapped round the circle, on [0, 2 pi]."""
from __future__ import annotations

import math

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._special._binomial_deviance import compute_log1p
from .._stats.distribution import Distribution, exp_or_nan, mask_invalid, mask_outside

__all__ = ["logpdf", "pdf"]

_distribution = Distribution("wrapcauchy", "Cauchy's distribution wrapped round the circle, on [0, 2 pi]",
                             c="real array, between 0 and 1: how narrow it is")


def _logpdf(x, c):
    """>>> logpdf(np.array([0., 7.]), 0.5)
    Array([-0.7392647,       -inf], dtype=float32)"""
    inside = (x >= 0) & (x <= 2 * np.pi)
    half = lnp.sin(0.5 * guard(inside, x, 0.0))
    spread = lnp.square(1.0 - c) + 4.0 * c * half * half  # 1 + c^2 - 2 c cos(x)
    value = compute_log1p(-c) + compute_log1p(c) - math.log(2 * math.pi) - lnp.log(spread)
    return mask_invalid(mask_outside(inside, value, -np.inf, x), c > 0, c < 1)


def _pdf(x, c):
    """>>> pdf(np.array([0., 7.]), 0.5)
    Array([0.47746485, 0.        ], dtype=float32)"""
    return exp_or_nan(_logpdf(x, c))


logpdf, pdf = map(_distribution, (_logpdf, _pdf))

_publish(globals())
