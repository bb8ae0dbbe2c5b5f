"""Gumbel's distribution of largest values."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import by_dtype, horner, derivatives, within
from ._distribution import Distribution, exponential, one_less, proper, complement_of_exp, standard

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_distribution = Distribution("gumbel_r", "Gumbel's distribution of largest values")


def _risen(y):
    """Places, from where exp(-exp(-y)) is no more than 0 at once, so that no derivative there is infinity times nothing."""
    low = by_dtype(y, -5.75, -7.5)
    return lnp.where(y < low, low, y)


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([0., -1e30]))
    Array([ -1., -inf], dtype=float32)"""
    y = standard(x, loc, scale)
    return proper(lnp.where(y == -np.inf, -np.inf, -y - lnp.exp(-within(y > -np.inf, y, 0.0))) - lnp.log(scale), scale > 0)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0., np.inf]))
    Array([0.36787945, 0.        ], dtype=float32)"""
    y = _risen(standard(x, loc, scale))
    return exponential(proper(-y - lnp.exp(-y) - lnp.log(scale), scale > 0))


def _logcdf(x, loc=0, scale=1):
    """>>> logcdf(np.array([0., 2.]))
    Array([-1.        , -0.13533528], dtype=float32)"""
    return proper(-lnp.exp(-standard(x, loc, scale)), scale > 0)


def _cdf(x, loc=0, scale=1):
    """>>> cdf(np.array([0., np.inf]))
    Array([0.36787945, 1.        ], dtype=float32)"""
    return proper(lnp.exp(-lnp.exp(-_risen(standard(x, loc, scale)))), scale > 0)


def _sf(x, loc=0, scale=1):
    """>>> sf(np.array([0., 80.]))
    Array([6.3212055e-01, 1.8048513e-35], dtype=float32)"""
    return proper(complement_of_exp(-lnp.exp(-_risen(standard(x, loc, scale)))), scale > 0)


_BERNOULLI = (1 / 74724249600, -691 / 1307674368000, 1 / 47900160, -1 / 1209600, 1 / 30240, -1 / 720, 1 / 12)


def _hazard(y):
    """Density over `sf`: u / (exp(u) - 1) of u = exp(-y), near 0 by its series (DLMF 24.2.1), whose own derivative keeps its
    digits."""
    u = lnp.exp(-y)
    small = u < 0.5
    v, w = within(small, u, 0.0), within(lnp.logical_not(small), u, 1.0)
    return lnp.where(small, 1.0 - 0.5 * v + v * v * horner(v * v, _BERNOULLI), -w * lnp.exp(-w) / lnp.expm1(-w))


@derivatives(lambda out, y: -_hazard(_risen(y)))
def _log_above(y):
    """log(1 - exp(-exp(-y)))."""
    far = y > 50.0  # where exp(-y) is all that is left, and may be below what the dtype holds
    return lnp.where(far, -y, one_less(-lnp.exp(-within(lnp.logical_not(far), _risen(y), 0.0))))


def _logsf(x, loc=0, scale=1):
    """>>> logsf(np.array([0., 500.]))
    Array([-4.5867515e-01, -5.0000000e+02], dtype=float32)"""
    return proper(_log_above(standard(x, loc, scale)), scale > 0)


def _ppf(q, loc=0, scale=1):
    """>>> ppf(np.array([0., 0.5, 1.]))
    Array([      -inf, 0.36651292,        inf], dtype=float32)"""
    inside = (q >= 0) & (q <= 1)
    return proper(loc - scale * lnp.log(-lnp.log(within(inside, q, 0.5))), inside, scale > 0)


logpdf, pdf, cdf, logcdf, sf, logsf, ppf = map(_distribution, (_logpdf, _pdf, _cdf, _logcdf, _sf, _logsf, _ppf))

_publish(globals())
