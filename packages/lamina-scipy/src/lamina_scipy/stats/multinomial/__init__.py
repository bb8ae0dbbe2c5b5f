"""The multinomial distribution."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import ignore_strict_promotion, public_api
from lamina_numpy.extend import publish as _publish
from lamina_tracing import Array, ArrayLike
from lamina_tracing.extend import typeof

from ..._util import call_real, promote_separately
from ..._special._xlogy import compute_xlogy
from ..._special._gammas import compute_gammaln
from ..._stats.distribution import exp_or_nan

__all__ = ["logpmf", "pmf"]

_PARAMETERS = docstring_entries("""
    x: real array `[..., m]` of counts, integers that sum to n.
    n: real array `[...]`: number of trials.
    p: real array `[..., m]`: the probabilities of the outcomes. They must sum to 1, which is not checked.
    TypeError: an argument is neither an array nor a number.
    DTypeError: an argument is complex.
    ShapeError: the shapes do not broadcast, or x and p have no axis.
    """)


@ignore_strict_promotion
def _compute_log(call, x, n, p, last=lambda log: log):
    """`last` of the logarithm, in the dtype that this is computed in."""
    final, (x, n, p) = promote_separately(call, x, n, p)
    if not typeof(x).shape:
        raise ShapeError(f"{call}: `x` and `p` must have an axis of outcomes; got rank 0")

    def core(x, p, n):
        n = n[..., 0]
        fits = lnp.all((x >= 0) & (x == lnp.floor(x)), -1) & (lnp.sum(x, -1) == n)
        y = lnp.where(fits[..., None], x, 0.0)
        value = compute_gammaln(n + 1.0) + lnp.sum(compute_xlogy(y, p) - compute_gammaln(y + 1.0), -1)
        out = lnp.where(fits, value, lnp.where(lnp.any(lnp.isnan(x), -1), np.nan, -np.inf))
        return last(lnp.where(lnp.all((p >= 0) & (p <= 1), -1) & (n >= 0), out, np.nan))
    return lnp.astype(call_real(call, core, x, p, lnp.expand_dims(n, -1)), final)


@public_api(entries=_PARAMETERS)
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of counts in the multinomial distribution.

    Args: {x, n, p}
    Returns:
      Float array `[...]`; minus infinity where x does not sum to n or holds no counts, NaN where p or n has no meaning.
    Raises: {TypeError, DTypeError, ShapeError}

    Source: meaning of `scipy.stats.multinomial.logpmf`.

    >>> logpmf(np.array([1., 2., 0.]), 3., np.array([0.25, 0.25, 0.5]))
    Array(-3.0602708, dtype=float32)
    """
    return _compute_log("multinomial.logpmf", x, n, p)


@public_api(entries=_PARAMETERS)
def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of counts in the multinomial distribution.

    Args: {x, n, p}
    Returns:
      Float array `[...]`; 0 where x does not sum to n or holds no counts, NaN where p or n has no meaning.
    Raises: {TypeError, DTypeError, ShapeError}

    Source: meaning of `scipy.stats.multinomial.pmf`.

    >>> pmf(np.array([1., 2., 0.]), 3., np.array([0.25, 0.25, 0.5]))
    Array(0.046875, dtype=float32)
    """
    return _compute_log("multinomial.pmf", x, n, p, exp_or_nan)


_publish(globals())
