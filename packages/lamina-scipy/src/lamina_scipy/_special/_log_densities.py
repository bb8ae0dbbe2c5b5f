"""The logarithms of the densities of the gamma and beta integrals."""
from __future__ import annotations

import math

import lamina_numpy as lnp
import numpy as np

from .._util import derivatives, guard
from ._binomial_deviance import deviance_term, factorial_rest, compute_log1p
from ._xlogy import compute_share, compute_xlog1py, compute_xlogy
from ._gammas import digamma_step, compute_gammaln, stirling

__all__ = ["compute_log_beta_density", "compute_log_gamma_density"]


def compute_log_gamma_density(a, x):
    """Return (a - 1) log x - x - log gamma(a) of arrays.

    For large shapes it is computed by Stirling's formula, its large parts in one deviance."""
    large = (a >= 20.0) & (a < np.inf) & (x > 0)
    p, y = guard(large, a, 20.0), guard(large, x, 20.0)
    formula = deviance_term(p, y, y - p) - stirling(p) + 0.5 * lnp.log(p / (2 * math.pi)) - lnp.log(y)
    usual = lnp.logical_not(large)
    p, y = guard(usual, a, 1.0), guard(usual, x, 1.0)
    return lnp.where(large, formula, compute_xlogy(p - 1.0, y) - y - compute_gammaln(p))


@derivatives(lambda out, a, b, x: lnp.log(x) + digamma_step(a, b),
        lambda out, a, b, x: compute_log1p(-x) + digamma_step(b, a),
        lambda out, a, b, x: compute_share(a - 1.0, x) - compute_share(b - 1.0, 1.0 - x))
def _log_beta_end(a, b, x):
    """Return the logarithm of the density at an end, x.

    It is infinite, except where that end's shape is 1. Its derivatives are those of adjacent points."""
    return compute_xlogy(a - 1.0, x) + compute_xlog1py(b - 1.0, -x) + lnp.log(lnp.where(x == 0, b, a))


def compute_log_beta_density(a, b, x):
    """Return (a - 1) log x + (b - 1) log(1 - x) - log beta(a, b), by deviances.

    At both ends return its limits. There the derivative in the shape of that end is log 0 also where this shape is 1,
    as on both sides of 1."""
    inside = (x > 0) & (x < 1)
    y = guard(inside, x, 0.5)
    z, both = 1.0 - y, a + b
    over = a * z - b * y
    value = (deviance_term(a, both * y, -over) + deviance_term(b, both * z, over)
             + (factorial_rest(both) - factorial_rest(a) - factorial_rest(b))
             + (lnp.log(a) - lnp.log(y)) + (lnp.log(b / both) - compute_log1p(-y)))
    return lnp.where(inside, value, _log_beta_end(a, b, guard(lnp.logical_not(inside), x, 0.5)))
