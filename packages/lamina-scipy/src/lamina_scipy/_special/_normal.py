"""The error function and its kin; the normal distribution's integral, its logarithm and its inverse."""
from __future__ import annotations

import math

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._util import SPECIAL, call_real, derivatives, guard, horner, make_real_function, pick
from ._binomial_deviance import compute_log1p
from ._faddeeva import compute_erfcx

__all__ = ["erf", "erfc", "erfcinv", "erfinv", "log_ndtr", "ndtr", "ndtri"]

_ROOT_HALF = math.sqrt(0.5)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)

# Wichura's PPND16: numerators and denominators of three ranges, from the highest power down.
_MIDDLE = ((2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457, 13731.693765509461125,
            1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
           (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867, 5394.1960214247511077,
            687.1870074920579083, 42.313330701600911252, 1.0))
_NEAR = ((7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
          3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
         (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
          0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0))
_FAR = ((2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
         0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
        (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
         0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0))


erf = make_real_function("erf", lax.erf,
                         "The error function, `2 / sqrt(pi)` times the integral of `exp(-t**2)` from 0 to x.",
                         "`2 / sqrt(pi) * exp(-x**2)`", "DLMF 7.2.1",
                         ">>> erf(np.array([0., np.inf]))\nArray([0., 1.], dtype=float32)",
                         "Float array of the shape of `x`, in [-1, 1].")
erfc = make_real_function("erfc", lax.erfc, "`1 - erf(x)`, accurate if that is small.", "`-2 / sqrt(pi) * exp(-x**2)`",
                          "DLMF 7.2.2",
                          ">>> erfc(np.array([0., np.inf]))\nArray([1., 0.], dtype=float32)",
                          "Float array of the shape of `x`, in [0, 2].")


@public_api(entries=SPECIAL)
def erfinv(x: ArrayLike) -> Array:
    """The inverse of `erf`.

    Args: {x}
    Returns:
      Float array of the shape of `x`; infinite at -1 and 1, NaN outside.
    Raises: {TypeError, DTypeError}

    Derivative: `sqrt(pi) / 2 * exp(y**2)`, y the result.
    Source: meaning of `scipy.special.erfinv`; by the routine of `ndtri`.

    >>> erfinv(np.array([0., 1.]))
    Array([ 0., inf], dtype=float32)
    """
    return call_real("erfinv", _erfinv, x)


@public_api(entries=SPECIAL)
def erfcinv(x: ArrayLike) -> Array:
    """The inverse of `erfc`.

    Args: {x}
    Returns:
      Float array of the shape of `x`; infinite at 0 and 2, NaN outside.
    Raises: {TypeError, DTypeError}

    Derivative: `-sqrt(pi) / 2 * exp(y**2)`, y the result.
    Source: meaning of `scipy.special.erfcinv`; by the routine of `ndtri`, from the smaller tail.

    >>> erfcinv(np.array([0., 1., 2.]))
    Array([ inf,   0., -inf], dtype=float32)
    """
    return call_real("erfcinv", _erfcinv, x)


def compute_ndtr(x):
    return 0.5 * lax.erfc(-_ROOT_HALF * x)


@public_api(entries=SPECIAL)
def ndtr(x: ArrayLike) -> Array:
    """The share of the standard normal distribution below x.

    Args:
      x: real array of any shape, in standard deviations; integers and booleans become float.
    Returns:
      Float array of the shape of `x`, in [0, 1].
    Raises: {TypeError, DTypeError}

    Derivative: the density, `exp(-x**2 / 2) / sqrt(2 pi)`.
    Source: meaning of `scipy.special.ndtr`: `erfc(-x / sqrt(2)) / 2`.

    >>> ndtr(np.array([-np.inf, 0., np.inf]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return call_real("ndtr", compute_ndtr, x)


def _tail(x):
    """`sqrt(2 pi) |x| exp(x**2 / 2) ndtr(x)` far below zero, by its asymptotic series (DLMF 7.12.1), and where that is."""
    far = x < pick(x, -10.0, -20.0)
    y = guard(far, x, -100.0)
    terms = pick(x, 7, 12)
    w = -1.0 / y / y
    total = lnp.ones_like(w)
    for k in range(terms, 0, -1):
        total = 1.0 + (2 * k - 1) * w * total
    return far, y, total


def _hazard_excess(x):
    """x plus the hazard well below zero, where the two all but cancel: Laplace's continued fraction (DLMF 7.9.2), and where."""
    far = x < pick(x, -2.5, -4.0)
    t = guard(far, -x, 10.0)
    total = t
    for k in range(pick(x, 20, 34), 1, -1):
        total = t + k / total
    return far, t, 1.0 / total


def _hazard_derivative(out, x):
    far, _, beyond = _hazard_excess(x)
    return lnp.negative(out) * lnp.where(far, beyond, guard(lnp.logical_not(far), x, 0.0) + out)


@derivatives(_hazard_derivative)
def _hazard(x):
    """The density over `ndtr`."""
    far, t, beyond = _hazard_excess(x)
    z = guard(lnp.logical_not(far), x, 0.0)
    near = lnp.exp(-0.5 * z * z - _HALF_LOG_2PI - compute_log_ndtr(z))
    return lnp.where(far, t + beyond, near)


@derivatives(lambda out, x: _hazard(x))
def compute_log_ndtr(x):
    far, y, total = _tail(x)
    z = lnp.where(far, 0.0, x)
    below = lnp.log(0.5 * lax.erfc(-_ROOT_HALF * lnp.minimum(z, 0.0)))
    above = compute_log1p(-0.5 * lax.erfc(_ROOT_HALF * lnp.maximum(z, 0.0)))
    tail = -0.5 * y * y - _HALF_LOG_2PI - lnp.log(-y) + lnp.log(total)
    return lnp.where(x == -np.inf, -np.inf, lnp.where(far, tail, lnp.where(z > 0, above, below)))


@public_api("series_order", entries=SPECIAL)
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """The logarithm of `ndtr`, in both tails with all its digits.

    Args:
      x: real array of any shape, in standard deviations; integers and booleans become float.
      series_order: of no effect: the tail's series has as many terms as the dtype needs.
    Returns:
      Float array of the shape of `x`, never positive.
    Raises: {TypeError, DTypeError}

    Derivative: the density over `ndtr(x)`, close to `-x` far below zero.
    Source: meaning of `scipy.special.log_ndtr`; the tail by DLMF 7.12.1.

    >>> log_ndtr(np.array([-1e4, 0., 20.]))
    Array([-5.0000012e+07, -6.9314718e-01, -2.7536241e-89], dtype=float32)
    """
    return call_real("log_ndtr", compute_log_ndtr, x)


def _quantile(q, low):
    """The quantile of a share of 1/2 + q; `low` is that share or what is left of it, whichever is less, and above 0."""
    inner = lnp.abs(q) <= 0.425
    r = lnp.sqrt(-lnp.log(guard(lnp.logical_not(inner), low, 0.05)))
    w = guard(inner, 0.180625 - q * q, 0.0)
    middle = q * horner(w, _MIDDLE[0]) / horner(w, _MIDDLE[1])
    near = horner(r - 1.6, _NEAR[0]) / horner(r - 1.6, _NEAR[1])
    far = horner(r - 5.0, _FAR[0]) / horner(r - 5.0, _FAR[1])
    outer = lnp.where(r <= 5.0, near, far) * lnp.where(q < 0, -1.0, 1.0)
    return lnp.where(inner, middle, outer)


@derivatives(lambda out, p: lnp.exp(0.5 * out * out + _HALF_LOG_2PI))
def compute_ndtri(p):
    q = p - 0.5
    inside = lnp.logical_and(p > 0, p < 1)
    value = _quantile(q, guard(inside, lnp.where(q < 0, p, 1.0 - p), 0.5))
    edge = lnp.where(p == 0, -np.inf, lnp.where(p == 1, np.inf, np.nan))
    return lnp.astype(lnp.where(inside, value, edge), typeof(p).dtype)


@derivatives(lambda out, x: 0.5 * math.sqrt(math.pi) * lnp.exp(out * out))
def _erfinv(x):
    size = lnp.abs(x)
    value = _ROOT_HALF * _quantile(0.5 * x, guard(size < 1, 0.5 - 0.5 * size, 0.5))
    return lnp.astype(lnp.where(size < 1, value, lnp.where(size == 1, x * np.inf, np.nan)), typeof(x).dtype)


def _erfcinv_derivative(out, x):
    """`exp(out**2)` as `erfcx(out) / erfc(out)`, which keeps the digits of small x."""
    left = x <= 1
    return -0.5 * math.sqrt(math.pi) * compute_erfcx(lnp.where(left, out, -out)) / lnp.where(left, x, 2.0 - x)


@derivatives(_erfcinv_derivative)
def _erfcinv(x):
    inside = lnp.logical_and(x > 0, x < 2)
    low = guard(inside, 0.5 * lnp.minimum(x, 2.0 - x), 0.5)
    value = _ROOT_HALF * _quantile(0.5 * (1.0 - x), low)
    edge = lnp.where(x == 0, np.inf, lnp.where(x == 2, -np.inf, np.nan))
    return lnp.astype(lnp.where(inside, value, edge), typeof(x).dtype)


@public_api()
def ndtri(p: ArrayLike) -> Array:
    """Compute the inverse of `ndtr`: the quantile p of the standard normal distribution.

    Args:
      p: real array of any shape, shares in [0, 1]; integers and booleans become float.
    Returns:
      Float array of the shape of `p`, in standard deviations; infinite at 0 and 1, NaN outside.
    Raises:
      TypeError: `p` is neither an array nor a number.
      DTypeError: `p` is complex.

    Derivative: `sqrt(2 pi) * exp(y**2 / 2)`, y the result.
    Source: Wichura, "Algorithm AS 241: the percentage points of the normal distribution" (1988), routine PPND16.

    >>> ndtri(np.array([0., 0.5, 1.]))
    Array([-inf,   0.,  inf], dtype=float32)
    """
    return call_real("ndtri", compute_ndtri, p)
