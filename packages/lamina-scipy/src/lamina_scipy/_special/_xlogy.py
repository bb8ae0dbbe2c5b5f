"""Products with logarithms, defined at zero; logistic function and its inverse."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import lamina_numpy as lnp
import numpy as np
from lamina_ir import dtypes
from lamina_numpy.extend import public_api, to_inexact
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._util import SPECIAL, SPECIAL_PAIR, call_real, derivatives, guard, to_common_inexact
from ._binomial_deviance import deviance_term, compute_log1p, compute_log_ratio

__all__ = ["entr", "expit", "kl_div", "logit", "rel_entr", "xlog1py", "xlogy"]


def _set_at_zero(x, y, value):
    return lnp.where(lnp.logical_and(x == 0, lnp.logical_not(lnp.isnan(y))), lnp.zeros_like(x), value)


def _is_nonzero(x, y):
    return (x != 0) | (y != 0)


# Not the quotient's own derivatives: in x / y^2 the square underflows early.
@derivatives(lambda out, x, y: lnp.where(_is_nonzero(x, y), 1.0 / guard(_is_nonzero(x, y), y, 1.0), 0.0),
        lambda out, x, y: -out / guard(_is_nonzero(x, y), y, 1.0))
def compute_share(x, y):
    """x / y, none where both are zero; where x alone is, its derivative is 1 / y all the same."""
    some = _is_nonzero(x, y)
    return guard(some, x, 0.0) / guard(some, y, 1.0)


@derivatives(lambda out, x, y: lnp.log(y), lambda out, x, y: compute_share(x, y))
def compute_xlogy(x, y):
    return _set_at_zero(x, y, x * lnp.log(y))


@derivatives(lambda out, x, y: compute_log1p(y), lambda out, x, y: compute_share(x, 1.0 + y))
def compute_xlog1py(x, y):
    return _set_at_zero(x, y, x * compute_log1p(y))


@derivatives(lambda out, x: -lnp.log(x) - 1.0)
def _entr(x):
    inside = guard(x > 0, x, 1.0)
    value = lnp.where(x > 0, -inside * lnp.log(inside), lnp.where(x == 0, 0.0, -np.inf))
    return lnp.where(lnp.isnan(x), x, value)


def _divergence(x, y, inside, at_zero):
    """`inside` where both are positive, `at_zero` where x is zero, else infinity."""
    value = lnp.where(lnp.logical_and(x > 0, y > 0), inside,
                      lnp.where(lnp.logical_and(x == 0, y >= 0), at_zero, np.inf))
    return lnp.where(lnp.isnan(x) | lnp.isnan(y), x + y, value)


def _log_share(x, y):
    """log(x / y), but -1 if both are zero. So the derivative of x log(x / y) is 0 there, as `compute_share` is."""
    some = _is_nonzero(x, y)
    return lnp.where(some, compute_log_ratio(guard(some, x, 1.0), guard(some, y, 1.0)), -1.0)


@derivatives(lambda out, x, y: _log_share(x, y) + 1.0, lambda out, x, y: -compute_share(x, y))
def _rel_entr(x, y):
    both = lnp.logical_and(x > 0, y > 0)
    a, b = guard(both, x, 1.0), guard(both, y, 1.0)
    return _divergence(x, y, a * compute_log_ratio(a, b), 0.0)


@derivatives(lambda out, x, y: _log_share(x, y), lambda out, x, y: 1.0 - compute_share(x, y))
def _kl_div(x, y):
    both = lnp.logical_and(x > 0, y > 0)
    a, b = guard(both, x, 1.0), guard(both, y, 1.0)
    return _divergence(x, y, -deviance_term(a, b, b - a), y)


class TimesLog(Protocol):
    """The type of `xlogy` and `xlog1py`."""

    def __call__(self, x: ArrayLike, y: ArrayLike) -> Array: ...


def _make_times_log(name: str, core: Callable[..., Any], formula: str, derivatives: str, example: str) -> TimesLog:
    def op(x: ArrayLike, y: ArrayLike) -> Array:
        return core(*to_common_inexact(name, x, y))
    doc = f"""`{formula}`, which is 0 if x is 0.

    Args:
      x, y: number arrays that broadcast to each other, also complex ones; integers and booleans become float.
    Returns:
      Array of the common shape, in the float or complex dtype that both promote to; NaN if either is NaN.
    Raises:
      TypeError: an argument is neither an array nor a number.
      ShapeError: the shapes do not broadcast.

    Derivative: {derivatives}, the latter 0 if x is 0.
    Source: meaning of `scipy.special.{name}`.

    {example}
    """
    return public_api(name=name, doc=doc)(op)


xlogy = _make_times_log("xlogy", compute_xlogy, "x * log(y)", "`log(y)` and `x / y`",
                        ">>> xlogy(np.array([0., 2.]), np.array([0., 1.]))\n    Array([0., 0.], dtype=float32)")
xlog1py = _make_times_log("xlog1py", compute_xlog1py, "x * log(1 + y)", "`log1p(y)` and `x / (1 + y)`",
                          ">>> xlog1py(np.array([0., 1.]), np.array([-1., 1e-6]))\n"
                          "    Array([0.e+00, 1.e-06], dtype=float32)")


@public_api(entries=SPECIAL)
def entr(x: ArrayLike) -> Array:
    """`-x * log(x)`: 0 at 0, minus infinity below.

    Args: {x}
    Returns:
      Float array of the shape of `x`, in nats.
    Raises: {TypeError, DTypeError}

    Derivative: `-log(x) - 1`, infinite at 0.
    Source: meaning of `scipy.special.entr`.

    >>> entr(np.array([0., 1., -1.]))
    Array([  0.,   0., -inf], dtype=float32)
    """
    return call_real("entr", _entr, x) + 0.0


@public_api(entries=SPECIAL_PAIR)
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """`p * log(p / q)`, an element of the relative entropy of two distributions.

    Args: {p, q}
    Returns:
      Float array of the common shape, in nats: 0 where p is 0 and q is not negative, else infinity where either is not
      positive.
    Raises: {TypeError, DTypeError, ShapeError}

    Derivative: `log(p / q) + 1`, minus infinity where p is 0, and `-p / q`; none where both are 0.
    Source: meaning of `scipy.special.rel_entr`.

    >>> rel_entr(np.array([0., 2., 1.]), np.array([0., 2., 0.]))
    Array([ 0.,  0., inf], dtype=float32)
    """
    return call_real("rel_entr", _rel_entr, p, q)


@public_api(entries=SPECIAL_PAIR)
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """`p * log(p / q) - p + q`, an element of the Kullback-Leibler divergence; never negative.

    Args: {p, q}
    Returns:
      Float array of the common shape, in nats: q where p is 0 and q is not negative, else infinity where either is not
      positive.
    Raises: {TypeError, DTypeError, ShapeError}

    Derivative: `log(p / q)`, minus infinity where p is 0, and `1 - p / q`; -1 and 1 where both are 0.
    Source: meaning of `scipy.special.kl_div`.

    >>> kl_div(np.array([0., 2.]), np.array([3., 2.]))
    Array([3., 0.], dtype=float32)
    """
    return call_real("kl_div", _kl_div, p, q)


@public_api(entries=SPECIAL)
def expit(x: ArrayLike) -> Array:
    """`1 / (1 + exp(-x))`, the logistic function.

    Args:
      x: number array of any shape, complex too; integers and booleans become float.
    Returns:
      Float or complex array of the shape of `x`.
    Raises: {TypeError}

    Derivative: `expit(x) expit(-x)`.
    Source: meaning of `scipy.special.expit`.

    >>> expit(np.array([-np.inf, 0., 100.]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x = to_inexact("expit", x)
    return compute_expit(lnp.asarray(x)) if dtypes.is_complex(typeof(x).dtype) else call_real("expit", compute_expit, x)


# Not y (1 - 2y), of which digits are lost around 0.
@derivatives(lambda out, x: -out * lnp.tanh(0.5 * x))
def _bell(x):
    """The derivative: not y (1 - y), of which nothing is left where y is rounded to 1."""
    return lax.logistic(x) * lax.logistic(-x)


@derivatives(lambda out, x: _bell(x))
def compute_expit(x):
    """The logistic function of an array."""
    return lax.logistic(x)


@public_api(entries=SPECIAL)
def logit(x: ArrayLike) -> Array:
    """`log(x / (1 - x))`, the inverse of `expit`.

    Args:
      x: number array of any shape, complex too; integers and booleans become float.
    Returns:
      Float or complex array of the shape of `x`; NaN outside [0, 1], infinite at both ends.
    Raises: {TypeError}

    Derivative: `1 / (x (1 - x))`.
    Source: meaning of `scipy.special.logit`; as `log1p(|2 x - 1| / min(x, 1 - x))` with a sign it keeps its digits at 1/2.

    >>> logit(np.array([0., 0.5, 1.]))
    Array([-inf,   0.,  inf], dtype=float32)
    """
    x = to_inexact("logit", x)
    return _complex_logit(x) if dtypes.is_complex(typeof(x).dtype) else call_real("logit", compute_logit, x)


def _complex_logit(x):
    return lnp.log(x / (1.0 - x))


@derivatives(lambda out, x: 1.0 / x + 1.0 / (1.0 - x))  # as a product its second derivative is no number at an end
def compute_logit(x):
    """By the distance from 1/2, which is exact from 1/4 on, and by symmetry: one logarithm, and no digit lost at 1/2."""
    size = lnp.log1p(lnp.abs(2.0 * x - 1.0) / lnp.minimum(x, 1.0 - x))
    return lnp.where(x < 0.5, -size, size)
