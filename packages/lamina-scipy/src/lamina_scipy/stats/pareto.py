"""Pareto's distribution, from 1 up."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import publish as _publish

from .._ground import within
from ._laws import Law, exponential, proper, standard, supported

__all__ = ["logpdf", "pdf"]

_law = Law("pareto", "Pareto's distribution, from 1 up", b="real array, above 0: its exponent")


def _logpdf(x, b, loc=0, scale=1):
    """>>> logpdf(np.array([1., 0.5]), 2.)
    Array([0.6931472,      -inf], dtype=float32)"""
    y = standard(x, loc, scale)
    value = lnp.log(b) - (b + 1.0) * lnp.log(within(y >= 1, y, 1.0)) - lnp.log(scale)
    return proper(supported(y >= 1, value, -np.inf, y), b > 0, scale > 0)


def _pdf(x, b, loc=0, scale=1):
    """>>> pdf(np.array([1., 0.5]), 2.)
    Array([2., 0.], dtype=float32)"""
    return exponential(_logpdf(x, b, loc, scale))


logpdf = _law(_logpdf)
pdf = _law(_pdf)

_publish(globals())
