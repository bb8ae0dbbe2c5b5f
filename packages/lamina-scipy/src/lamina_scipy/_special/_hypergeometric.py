"""Kummer's confluent hypergeometric function."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import jvp
from lamina_ir import dtypes
from lamina_numpy.extend import public
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._ground import by_dtype, real, slopes, within
from ._gammas import gammaln_of, gammasgn_of, is_pole

__all__ = ["hyp1f1"]

_MOST_TERMS = 5000


def _summed(a: Any, b: Any, x: Any) -> Any:
    """The power series, DLMF 13.2.2; it ends by itself where a is 0, -1, ..."""
    eps = float(dtypes.finfo(typeof(x).dtype).eps)

    def more(state: Any) -> Any:
        k, term, total = state
        going = lnp.abs(term) > 0.25 * eps * lnp.abs(total)
        rising = k < lnp.maximum(-a, -b)  # before the factors of a or b change their sign terms may grow again
        return lnp.logical_and(k < _MOST_TERMS, lnp.any(going | (rising & (term != 0))))

    def step(state: Any) -> Any:
        k, term, total = state
        over, under = (a + k) * x, (b + k) * (k + 1.0)
        none = under == 0
        at_pole = lnp.where((term == 0) | (over == 0), 0.0, np.inf)
        term = lnp.where(none, at_pole, term * (over / lnp.where(none, 1.0, under)))
        return k + 1.0, term, total + term

    one = lnp.ones_like(x)
    return lax.while_loop(more, step, (lnp.zeros((), typeof(x).dtype), one, one))[2]


def _asymptotic(p: Any, q: Any, x: Any) -> Any:
    """The sum of (p)_k (q)_k / (k! x^k), each element up to its smallest term."""
    def step(i: Any, state: Any) -> Any:
        term, total = state
        k = lnp.astype(i, typeof(x).dtype)
        following = term * (p + k) * (q + k) / (k + 1.0) / x
        term = lnp.where(lnp.abs(following) <= lnp.abs(term), following, 0.0)
        return term, total + term

    one = lnp.ones_like(x)
    return lax.fori_loop(0, by_dtype(x, 20, 40), step, (one, one))[1]


def _value(a: Any, b: Any, x: Any) -> Any:
    """The function where b is no pole, in a form whose slopes in a and b are those of its parts."""
    left = x < 0
    p = lnp.where(left, b - a, a)  # Kummer's transformation, DLMF 13.2.39
    y = lnp.abs(x)
    spread = (1.0 + lnp.abs(1.0 - p)) * (1.0 + lnp.abs(b - p))
    far = (y > by_dtype(x, 30.0, 60.0)) & (y > 2.0 * spread) & lnp.logical_not(is_pole(p))
    # powers: a polynomial where p is 0, -1, ...; directly where a is
    ends = is_pole(a)
    direct = lnp.where(ends, a, p)
    series = _summed(lnp.where(far, 1.0, direct), lnp.where(far, 1.0, b), lnp.where(far, 0.0, lnp.where(ends, x, y)))
    near = lnp.where(left & lnp.logical_not(ends), lnp.exp(lnp.where(left, x, 0.0)) * series, series)
    z = within(far, y, 100.0)
    p, c = within(far, p, 1.5), within(far, b, 2.0)
    size = gammaln_of(c) - gammaln_of(p) + (p - c) * lnp.log(z)
    sign = lax.stop_gradient(gammasgn_of(c) * gammasgn_of(p))
    half = lnp.exp(0.5 * (size + lnp.where(left, 0.0, z)))
    return lnp.where(far, sign * half * _asymptotic(1.0 - p, c - p, z) * half, near)


def _in_shape(place: int) -> Any:
    def slope(out: Any, a: Any, b: Any, x: Any) -> Any:
        by = [lnp.ones_like(a) if i == place else lnp.zeros_like(a) for i in range(2)]
        return jvp(lambda a, b: _value(a, b, x), (a, b), tuple(by))[1]
    return slope


@slopes(_in_shape(0), _in_shape(1), lambda out, a, b, x: a / b * _hyp1f1(a + 1.0, b + 1.0, x))
def _hyp1f1(a, b, x):
    pole = is_pole(b) & lnp.logical_not(is_pole(a) & (a >= b))
    value = lnp.where(pole, lnp.where(x == 0, 1.0, np.inf), _value(a, within(lnp.logical_not(pole), b, 1.0), x))
    return lnp.where(lnp.isnan(a + b + x), np.nan, value)


@public()
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function, the sum of `(a)_k x**k / ((b)_k k!)`.

    Args:
      a, b, x: real arrays that broadcast to each other; integers and booleans become float.
    Returns:
      Float array of the common shape; infinite where b is 0, -1, ... unless the sum ends before.
      Where a (or, for negative x, `b - a`) is far below zero terms of both signs meet, and digits are lost.
    Raises:
      TypeError: an argument is neither an array nor a number.
      DTypeError: an argument is complex.
      ShapeError: the shapes do not broadcast.

    Derivative: `a / b * hyp1f1(a + 1, b + 1, x)` in x; in a and b that of the sum, once in reverse mode.
    Source: DLMF 13.2.2; negative x by 13.2.39, large ones by 13.7.2.

    >>> hyp1f1(1., np.array([1., 2.]), 1.)
    Array([2.7182817, 1.7182817], dtype=float32)
    """
    return real("hyp1f1", _hyp1f1, a, b, x)
