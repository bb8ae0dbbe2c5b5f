"""The uniform distribution, on [0, 1]."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import guard
from .._stats.distribution import Distribution, clip_at_end, mask_invalid, mask_outside, standardize

__all__ = ["cdf", "logpdf", "pdf", "ppf"]

_distribution = Distribution("uniform", "the uniform distribution, on [0, 1]")


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([0.5, 2.]))
    Array([  0., -inf], dtype=float32)"""
    y = standardize(x, loc, scale)
    return mask_invalid(mask_outside((y >= 0) & (y <= 1), -lnp.log(scale) + 0.0, -np.inf, y), scale > 0)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0.5, 2.]))
    Array([1., 0.], dtype=float32)"""
    y = standardize(x, loc, scale)
    inside = (y >= 0) & (y <= 1)
    return mask_invalid(mask_outside(inside, 1.0 / guard(inside, scale, 1.0), 0.0, y), scale > 0)


def _cdf(x, loc=0, scale=1):
    """>>> cdf(np.array([0.25, 2.]))
    Array([0.25, 1.  ], dtype=float32)"""
    y = clip_at_end(standardize(x, loc, scale))
    return mask_invalid(lnp.where(y > 1, 1.0, y), scale > 0)


def _ppf(q, loc=0, scale=1):
    """>>> ppf(np.array([0.25, 2.]))
    Array([0.25,  nan], dtype=float32)"""
    return mask_invalid(loc + scale * q, q >= 0, q <= 1, scale > 0)


logpdf, pdf, cdf, ppf = map(_distribution, (_logpdf, _pdf, _cdf, _ppf))

_publish(globals())
