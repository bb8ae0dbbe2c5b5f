"""The uniform distribution, on [0, 1]."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._util import within
from ._distribution import Distribution, from_end, proper, standard, supported

__all__ = ["cdf", "logpdf", "pdf", "ppf"]

_distribution = Distribution("uniform", "the uniform distribution, on [0, 1]")


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([0.5, 2.]))
    Array([  0., -inf], dtype=float32)"""
    y = standard(x, loc, scale)
    return proper(supported((y >= 0) & (y <= 1), -lnp.log(scale) + 0.0, -np.inf, y), scale > 0)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0.5, 2.]))
    Array([1., 0.], dtype=float32)"""
    y = standard(x, loc, scale)
    inside = (y >= 0) & (y <= 1)
    return proper(supported(inside, 1.0 / within(inside, scale, 1.0), 0.0, y), scale > 0)


def _cdf(x, loc=0, scale=1):
    """>>> cdf(np.array([0.25, 2.]))
    Array([0.25, 1.  ], dtype=float32)"""
    y = from_end(standard(x, loc, scale))
    return proper(lnp.where(y > 1, 1.0, y), scale > 0)


def _ppf(q, loc=0, scale=1):
    """>>> ppf(np.array([0.25, 2.]))
    Array([0.25,  nan], dtype=float32)"""
    return proper(loc + scale * q, q >= 0, q <= 1, scale > 0)


logpdf, pdf, cdf, ppf = map(_distribution, (_logpdf, _pdf, _cdf, _ppf))

_publish(globals())
