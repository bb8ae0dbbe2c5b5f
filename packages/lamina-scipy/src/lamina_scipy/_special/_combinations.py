"""Numbers of combinations, and the transformation of Box and Cox."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike

from .._util import call_real, call_with_counts, derivatives, guard
from ._binomial_deviance import compute_log1p
from ._gammas import digamma_step, expm1_quotient
from ._incomplete import compute_betaln
from ._xlogy import compute_xlog1py, compute_xlogy

__all__ = ["boxcox", "boxcox1p", "comb"]

_MOST_FACTORS = 30

_PAIR = docstring_entries("""
    TypeError: an argument is neither an array nor a number.
    DTypeError: an argument is complex.
    ShapeError: the shapes do not broadcast.
    """)


@derivatives(lambda out, n, k: out * digamma_step(n - k + 1.0, k), lambda out, n, k: out * digamma_step(k + 1.0, n - 2.0 * k))
def _comb_inside(n: Any, k: Any) -> Any:
    """The binomial coefficient where 0 <= k <= n: a product for few whole factors, else by the beta function."""
    low = lnp.minimum(k, n - k)
    whole = (n == lnp.floor(n)) & (k == lnp.floor(k))
    few = whole & (low <= _MOST_FACTORS)
    factors = guard(few, low, 0.0)
    product = lnp.ones_like(n)
    for i in range(1, _MOST_FACTORS + 1):
        product = lnp.where(factors >= i, product * (n - factors + float(i)) / float(i), product)
    other = guard(few, 1.0, 0.0)
    p, q = lnp.where(few, other, n - k), lnp.where(few, other, k)
    value = lnp.exp(-lnp.log1p(p + q) - compute_betaln(p + 1.0, q + 1.0))
    return lnp.where(few, product, value)


def _comb(n: Any, k: Any) -> Any:
    inside = (n >= 0) & (k >= 0) & (k <= n) & (n < np.inf)
    value = lnp.where(inside, _comb_inside(guard(inside, n, 1.0), guard(inside, k, 0.0)), 0.0)
    return lnp.where(lnp.isnan(n + k) | (lnp.isinf(n) & (n > 0)), np.nan, value)


def _comb_repeated(n: Any, k: Any) -> Any:
    return lnp.where((n == 0) & (k == 0), 1.0, _comb(n + k - 1.0, k))


@public_api("repetition", entries=_PAIR)
def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """The number of combinations of N things taken k at a time, `N! / (k! (N - k)!)`.

    Args:
      N, k: real arrays that broadcast to each other, whole or not; integers and booleans become float.
      repetition: whether a thing may be taken several times: then it is `comb(N + k - 1, k)`.
    Returns:
      Float array of the common shape; 0 where N or k is negative or k is above N. Whole numbers below 2**17 in float32
      and 2**47 in float64 are exact.
    Raises: {TypeError, DTypeError, ShapeError}

    Derivative: `y (digamma(N + 1) - digamma(N - k + 1))` and `y (digamma(N - k + 1) - digamma(k + 1))`, y the result.
    Source: meaning of `scipy.special.comb` with `exact=False`; DLMF 1.2.6.

    >>> comb(5, np.array([0, 2, 6]))
    Array([ 1., 10.,  0.], dtype=float32)
    """
    return call_with_counts("comb", _comb_repeated if repetition else _comb, N, k)


def _quotient_derivative(h: Any) -> Any:
    """The derivative of (exp(h) - 1) / h, times h**2, for h not close to 0."""
    return lnp.where(h == -np.inf, 1.0, lnp.exp(h) * (guard(h > -np.inf, h, 0.0) - 1.0) + 1.0)


def _power_quotient(log: Any, power: Any) -> Any:
    """(exp(power * log) - 1) / power; `log` where power is 0."""
    product = lnp.where((power == 0) | (log == 0), 0.0, guard(power != 0, power, 1.0) * guard(log != 0, log, 1.0))
    small = lnp.abs(product) < 0.5
    near = guard(small, log, 0.0) * expm1_quotient(guard(small, product, 0.0))
    far = lnp.expm1(guard(lnp.logical_not(small), product, 1.0)) / guard(lnp.logical_not(small), power, 1.0)
    return lnp.where(lnp.isnan(log + power), np.nan, lnp.where(small, near, far))


def _derivative_power(log: Any, power: Any) -> Any:
    """The derivative of `_power_quotient` in the power."""
    product = lnp.where((power == 0) | (log == 0), 0.0, guard(power != 0, power, 1.0) * guard(log != 0, log, 1.0))
    small = lnp.abs(product) < 0.5
    h = guard(small, product, 0.0)
    total = lnp.zeros_like(h)
    for k in range(14, -1, -1):  # the sum of h**k / (k! (k + 2))
        total = 1.0 / (k + 2) + (total * h / (k + 1))
    near = guard(small, log, 0.0) * guard(small, log, 0.0) * total
    far = _quotient_derivative(guard(lnp.logical_not(small), product, 1.0))
    under = guard(lnp.logical_not(small), power, 1.0)
    return lnp.where(small, near, far / under / under)


@derivatives(lambda out, x, power: lnp.exp(compute_xlogy(power - 1.0, x)),
             lambda out, x, power: _derivative_power(lnp.log(x), power))
def _boxcox(x: Any, power: Any) -> Any:
    return _power_quotient(lnp.log(x), power)


@derivatives(lambda out, x, power: lnp.exp(compute_xlog1py(power - 1.0, x)),
             lambda out, x, power: _derivative_power(compute_log1p(x), power))
def _boxcox1p(x: Any, power: Any) -> Any:
    return _power_quotient(compute_log1p(x), power)


@public_api(entries=_PAIR)
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The transformation of Box and Cox, `(x**lmbda - 1) / lmbda`; `log(x)` where lmbda is 0.

    Args:
      x, lmbda: real arrays that broadcast to each other; integers and booleans become float.
    Returns:
      Float array of the common shape; NaN where `x` is negative.
    Raises: {TypeError, DTypeError, ShapeError}

    Derivative: `x**(lmbda - 1)` in x; in `lmbda` that of the quotient.
    Source: meaning of `scipy.special.boxcox`.

    >>> boxcox(np.array([1., 4.]), np.array([0.5, 0.5]))
    Array([0., 2.], dtype=float32)
    """
    return call_real("boxcox", _boxcox, x, lmbda)


@public_api(entries=_PAIR)
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The transformation of Box and Cox of 1 + x, `((1 + x)**lmbda - 1) / lmbda`, accurate for small x.

    Args:
      x, lmbda: real arrays that broadcast to each other; integers and booleans become float.
    Returns:
      Float array of the common shape; NaN where `x` is below -1.
    Raises: {TypeError, DTypeError, ShapeError}

    Derivative: `(1 + x)**(lmbda - 1)` in x; in `lmbda` that of the quotient.
    Source: meaning of `scipy.special.boxcox1p`.

    >>> boxcox1p(np.array([1e-20, 3.]), np.array([2., 0.5]))
    Array([1.e-20, 2.e+00], dtype=float32)
    """
    return call_real("boxcox1p", _boxcox1p, x, lmbda)
