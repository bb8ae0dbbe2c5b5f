"""The exponential distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._ground import within
from ._laws import Law, exponential, proper, standard, supported

__all__ = ["logpdf", "pdf"]

_law = Law("expon", "the exponential distribution")


def _logpdf(x, loc=0, scale=1):
    """>>> logpdf(np.array([1., -1.]))
    Array([ -1., -inf], dtype=float32)"""
    y = standard(x, loc, scale)
    return proper(supported(y >= 0, -within(y >= 0, y, 0.0) - lnp.log(scale), -np.inf, y), scale > 0)


def _pdf(x, loc=0, scale=1):
    """>>> pdf(np.array([0., -1.]))
    Array([1., 0.], dtype=float32)"""
    return exponential(_logpdf(x, loc, scale))


logpdf = _law(_logpdf)
pdf = _law(_pdf)

_publish(globals())
