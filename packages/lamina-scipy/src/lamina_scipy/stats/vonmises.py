"""Von Mises' distribution of angles."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish
from lamina_tracing import lax

from .._stats.distribution import Distribution, exp_or_nan, mask_invalid

__all__ = ["logpdf", "pdf"]

_distribution = Distribution("vonmises", "von Mises' distribution of angles",
                             kappa="real array, none below 0: how narrow it is")


def _logpdf(x, kappa):
    """>>> logpdf(np.array([0., 2.]), 1.)
    Array([-1.0737915, -2.4899383], dtype=float32)"""
    half = lnp.sin(0.5 * x)  # cos(x) - 1 is -2 half^2
    return mask_invalid(-2.0 * kappa * half * half - lnp.log(2.0 * np.pi * lax.bessel_i0e(kappa)), kappa >= 0)


def _pdf(x, kappa):
    """>>> pdf(np.array([0., 2.]), 1.)
    Array([0.34171045, 0.08291508], dtype=float32)"""
    return exp_or_nan(_logpdf(x, kappa))


logpdf, pdf = map(_distribution, (_logpdf, _pdf))

_publish(globals())
