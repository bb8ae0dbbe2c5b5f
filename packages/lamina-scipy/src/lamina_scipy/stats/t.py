"""Student's distribution."""
from __future__ import annotations

import math

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish
from lamina_tracing import lax

from .._util import derivatives, guard, horner, pick
from .._special._binomial_deviance import deviance_term
from .._special._incomplete import compute_betaln
from .._stats.distribution import Distribution, exp_or_nan, hyperbola, log1p_square, mask_invalid, standardize

__all__ = ["logpdf", "pdf"]

_distribution = Distribution("t", "Student's distribution",
                             df="real array, above 0: the degrees of freedom; infinity gives the normal distribution")

# What digamma(z + 1/2) - digamma(z) has more than 1 / (2 z), by powers of 1 / z^2 (DLMF 5.11.2), from the highest down.
_HALF_STEP = (-0.88650608062744140625, 0.166656494140625, -0.04217529296875, 0.01513671875, -0.00830078125, 0.0078125,
              -0.015625, 0.125)


def _derivative_n(out, y, n):
    """By the shape, in parts none of which is the difference of two large ones."""
    ratio = y / lnp.sqrt(n)
    w = 0.5 * ratio * hyperbola(ratio)  # y^2 / (n + y^2)
    small = w < 0.3
    v = guard(small, w, 0.0)
    turn = lnp.where(small, deviance_term(lnp.ones_like(v), 1.0 - v, -v), w - log1p_square(ratio))  # log(1 - w) + w
    z = 0.5 * n
    large = z >= pick(n, 4.0, 16.0)
    v, u = 1.0 / lnp.square(guard(large, z, 16.0)), lnp.where(large, 1.0, z)
    step = lnp.where(large, v * horner(v, _HALF_STEP[pick(n, 3, 0):]), lax.digamma(u + 0.5) - lax.digamma(u) - 0.5 / u)
    return 0.5 * (turn + w / n + step)


def _derivative_y(out, y, n):
    root = lnp.sqrt(n)
    return -0.5 * ((n + 1.0) / root) * hyperbola(y / root)


@derivatives(_derivative_y, _derivative_n)
def _log_density(y, n):
    tail = -0.5 * (n + 1.0) * log1p_square(y / lnp.sqrt(n))
    return tail - 0.5 * lnp.log(n) - compute_betaln(0.5 * n, lnp.full_like(n, 0.5))


def _logpdf(x, df, loc=0, scale=1):
    """>>> logpdf(np.array([0., 1e30]), 3.)
    Array([  -1.0008888, -275.11386  ], dtype=float32)"""
    y, normal = standardize(x, loc, scale), df == np.inf
    limit = -0.5 * y * y - 0.5 * math.log(2 * math.pi)
    value = _log_density(y, lnp.where(normal, 1.0, df))
    return mask_invalid(lnp.where(normal, limit, value) - lnp.log(scale), df > 0, scale > 0)


def _pdf(x, df, loc=0, scale=1):
    """>>> pdf(np.array([0., 1.]), 1.)
    Array([0.3183099 , 0.15915495], dtype=float32)"""
    return exp_or_nan(_logpdf(x, df, loc, scale))


logpdf, pdf = map(_distribution, (_logpdf, _pdf))

_publish(globals())
