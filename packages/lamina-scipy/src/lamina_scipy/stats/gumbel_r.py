"""Gumbel's distribution of largest values."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import derivatives, guard, horner, pick
from .._stats.distribution import Distribution, exp_complement, exp_or_nan, log1mexp, mask_invalid, standardize

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_distribution = Distribution("gumbel_r", "Gumbel's distribution of largest values")


def _clip_low(y):
    """Places, from where exp(-exp(-y)) is no more than 0 at once, so that no derivative there is infinity times nothing."""
    low = pick(y, -5.75, -7.5)
    return lnp.where(y < low, low, y)


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([0., -1e30]))
    Array([ -1., -inf], dtype=float32)"""
    y = standardize(x, loc, scale)
    return mask_invalid(lnp.where(y == -np.inf, -np.inf, -y - lnp.exp(-guard(y > -np.inf, y, 0.0))) - lnp.log(scale),
                        scale > 0)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0., np.inf]))
    Array([0.36787945, 0.        ], dtype=float32)"""
    y = _clip_low(standardize(x, loc, scale))
    return exp_or_nan(mask_invalid(-y - lnp.exp(-y) - lnp.log(scale), scale > 0))


def _logcdf(x, loc=0, scale=1):
    """>>> logcdf(np.array([0., 2.]))
    Array([-1.        , -0.13533528], dtype=float32)"""
    return mask_invalid(-lnp.exp(-standardize(x, loc, scale)), scale > 0)


def _cdf(x, loc=0, scale=1):
    """>>> cdf(np.array([0., np.inf]))
    Array([0.36787945, 1.        ], dtype=float32)"""
    return mask_invalid(lnp.exp(-lnp.exp(-_clip_low(standardize(x, loc, scale)))), scale > 0)


def _sf(x, loc=0, scale=1):
    """>>> sf(np.array([0., 80.]))
    Array([6.3212055e-01, 1.8048513e-35], dtype=float32)"""
    return mask_invalid(exp_complement(-lnp.exp(-_clip_low(standardize(x, loc, scale)))), scale > 0)


_BERNOULLI = (1 / 74724249600, -691 / 1307674368000, 1 / 47900160, -1 / 1209600, 1 / 30240, -1 / 720, 1 / 12)


def _hazard(y):
    """Density over `sf`: u / (exp(u) - 1) of u = exp(-y), near 0 by its series (DLMF 24.2.1), whose own derivative keeps its
    digits."""
    u = lnp.exp(-y)
    small = u < 0.5
    v, w = guard(small, u, 0.0), guard(lnp.logical_not(small), u, 1.0)
    return lnp.where(small, 1.0 - 0.5 * v + v * v * horner(v * v, _BERNOULLI), -w * lnp.exp(-w) / lnp.expm1(-w))


@derivatives(lambda out, y: -_hazard(_clip_low(y)))
def _log_tail(y):
    """log(1 - exp(-exp(-y)))."""
    far = y > 50.0  # where exp(-y) is all that is left, and may be below what the dtype holds
    return lnp.where(far, -y, log1mexp(-lnp.exp(-guard(lnp.logical_not(far), _clip_low(y), 0.0))))


def _logsf(x, loc=0, scale=1):
    """>>> logsf(np.array([0., 500.]))
    Array([-4.5867515e-01, -5.0000000e+02], dtype=float32)"""
    return mask_invalid(_log_tail(standardize(x, loc, scale)), scale > 0)


def _ppf(q, loc=0, scale=1):
    """>>> ppf(np.array([0., 0.5, 1.]))
    Array([      -inf, 0.36651292,        inf], dtype=float32)"""
    inside = (q >= 0) & (q <= 1)
    return mask_invalid(loc - scale * lnp.log(-lnp.log(guard(inside, q, 0.5))), inside, scale > 0)


logpdf, pdf, cdf, logcdf, sf, logsf, ppf = map(_distribution, (_logpdf, _pdf, _cdf, _logcdf, _sf, _logsf, _ppf))

_publish(globals())
