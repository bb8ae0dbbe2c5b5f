"""Dirichlet's distribution of shares."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import public_api
from lamina_numpy.extend import publish as _publish
from lamina_tracing import Array, ArrayLike
from lamina_tracing.extend import typeof

from ..._util import call_real, guard, promote_separately, to_floats
from ..._special._xlogy import compute_xlogy
from ..._special._gammas import compute_gammaln
from ..._stats.distribution import exp_or_nan

__all__ = ["logpdf", "pdf"]

_PARAMETERS = docstring_entries("""
    x: real array `[n, ...]` that sums to 1 along the first axis, or `[n - 1, ...]` without the last element.
    alpha: real array `[n]`, above 0.
    TypeError: an argument is neither an array nor a number.
    DTypeError: an argument is complex.
    ShapeError: the lengths do not fit.
    """)


def _compute_log(call, x, alpha, last=lambda log: log):
    """`last` of the logarithm, in the dtype that this is computed in."""
    given = typeof(to_floats(call, x)[0]).dtype
    final, (x, alpha) = promote_separately(call, x, alpha)
    shape, weights = typeof(x).shape, typeof(alpha).shape
    if len(weights) != 1 or not shape or shape[0] not in (weights[0], weights[0] - 1):
        raise ShapeError(f"{call}: `alpha` must have shape (n,), and `x` n or n - 1 rows; got alpha {weights}, x {shape}")
    if shape[0] == weights[0] - 1:
        x = lnp.concatenate([x, 1.0 - lnp.sum(x, 0, keepdims=True)])

    def core(x, a):
        slack = 2.0 * float(dtypes.finfo(given).eps) if given.itemsize < 4 else 1e-4 if typeof(x).dtype.itemsize < 8 else 1e-10
        inside = lnp.all(x >= 0, 0) & (lnp.abs(lnp.sum(x, 0) - 1.0) < slack)
        terms = compute_xlogy(a - 1.0, guard(inside, x, 0.5)) - compute_gammaln(a)
        value = lnp.sum(terms, 0) + compute_gammaln(lnp.sum(a, 0))
        out = lnp.where(inside, value, lnp.where(lnp.any(lnp.isnan(x), 0), np.nan, -np.inf))
        return last(lnp.where(lnp.all(a > 0, 0), out, np.nan))
    return lnp.astype(call_real(call, core, x, lnp.reshape(alpha, (-1,) + (1,) * (len(shape) - 1))), final)


@public_api(entries=_PARAMETERS)
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density of Dirichlet's distribution of shares.

    Args: {x, alpha}
    Returns:
      Float array `[...]`; minus infinity where x is no set of shares, NaN where alpha is not positive.
    Raises: {TypeError, DTypeError, ShapeError}

    Source: meaning of `scipy.stats.dirichlet.logpdf`.

    >>> logpdf(np.array([0.2, 0.3, 0.5]), np.array([1., 2., 3.]))
    Array(1.5040774, dtype=float32)
    """
    return _compute_log("dirichlet.logpdf", x, alpha)


@public_api(entries=_PARAMETERS)
def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density of Dirichlet's distribution of shares.

    Args: {x, alpha}
    Returns:
      Float array `[...]`; 0 where x is no set of shares, NaN where alpha is not positive.
    Raises: {TypeError, DTypeError, ShapeError}

    Source: meaning of `scipy.stats.dirichlet.pdf`.

    >>> pdf(np.array([0.2, 0.3, 0.5]), np.array([1., 2., 3.]))
    Array(4.5, dtype=float32)
    """
    return _compute_log("dirichlet.pdf", x, alpha, exp_or_nan)


_publish(globals())
