"""The principal branch of the logarithm of gamma, of complex numbers too."""
from __future__ import annotations

import math
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import dtypes
from lamina_numpy.extend import ignore_strict_promotion, public_api, to_inexact
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._util import SPECIAL, call_real, guard, horner
from ._gammas import NEAR_ONE, compute_gammaln, stirling

__all__ = ["loggamma"]

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_LOG_PI = math.log(math.pi)
_SHIFTS = 8


def _loggamma_right(z: Any) -> Any:
    """Return log gamma of z with a real part from 1/2 up.

    Near its zeros 1 and 2 it is computed by the series DLMF 5.7.3, elsewhere by Stirling's formula, 5.11.1. If z is
    small, eight steps of the recurrence come first."""
    wide = typeof(z).dtype == np.complex128
    series = NEAR_ONE if wide else NEAR_ONE[22:]
    one, two = lnp.abs(z - 1.0) < 0.3, lnp.abs(z - 2.0) < 0.3
    step = lnp.where(one, z - 1.0, lnp.where(two, z - 2.0, 0.0))
    near = horner(step, series) + lnp.where(two, lnp.log1p(step), 0.0)
    small = lnp.abs(z) < 8.0
    start = guard(small, z, 1.0)
    logs = lnp.zeros_like(z)
    for k in range(0, _SHIFTS, 2):  # the arguments of two factors add up to less than pi
        logs = logs + lnp.log((start + float(k)) * (start + float(k + 1)))
    y = lnp.where(small, start + float(_SHIFTS), z)
    large = (y - 0.5) * lnp.log(y) - y + _HALF_LOG_2PI + stirling(y)
    return lnp.where(one | two, near, lnp.where(small, large - logs, large))


def _log_sine(x: Any, y: Any) -> Any:
    """log sin(pi z) of z = x + iy above the real axis, continued from the real numbers in (0, 1): the logarithm of
    exp(-i pi (z - 1/2)) (1 - exp(2 pi i z)) / 2."""
    turn = np.pi * (x - lnp.round(x))
    small, sine = lnp.exp(-2.0 * np.pi * y), lnp.sin(turn)
    real = -lnp.expm1(-2.0 * np.pi * y) + 2.0 * small * sine * sine
    rest = lnp.log(lax.complex(real, -2.0 * small * sine * lnp.cos(turn)))
    return rest + lax.complex(np.pi * y - math.log(2.0), -np.pi * (x - 0.5))


def _complex_loggamma(z: Any) -> Any:
    x, y = lax.real(z), lax.imag(z)
    low = lnp.signbit(y)
    upper = lnp.where(low, lnp.conj(z), z)
    left = x < 0.5
    right = _loggamma_right(lnp.where(left, 1.0 - upper, upper))
    sine = _log_sine(guard(left, x, 0.25), guard(left, lnp.abs(y), 1.0))
    value = lnp.where(left, _LOG_PI - sine - right, right)
    pole = (y == 0) & (x <= 0) & (x == lnp.floor(x))
    return lnp.where(pole | lnp.isnan(z), np.nan, lnp.where(low, lnp.conj(value), value))


def _real_loggamma(x: Any) -> Any:
    good = x >= 0
    return lnp.where(good, compute_gammaln(guard(good, x, 1.0)), np.nan)


@public_api(entries=SPECIAL)
def loggamma(x: ArrayLike) -> Array:
    """The principal branch of the logarithm of gamma, analytic but for the real numbers from 0 down.

    Args:
      x: number array of any shape, complex too; integers and booleans become float.
    Returns:
      Float or complex array of the shape of `x`. Of real numbers NaN below 0 and infinite at 0; of complex numbers NaN at
      0, -1, -2, ... Along the cut, the sign of the zero imaginary part chooses the side.
    Raises: {TypeError}

    Derivative: the logarithmic derivative of gamma.
    Source: meaning of `scipy.special.loggamma`; DLMF 5.11.1, 5.7.3, to the left of 1/2 by 5.5.3.

    >>> loggamma(np.array([10., -1.]))
    Array([12.801827,       nan], dtype=float32)
    >>> loggamma(np.array([2. + 1j]))
    Array([-0.3043499+0.48375785j], dtype=complex64)
    """
    z = lnp.asarray(to_inexact("loggamma", x))
    if dtypes.is_complex(typeof(z).dtype):
        return ignore_strict_promotion(_complex_loggamma)(z)
    return call_real("loggamma", _real_loggamma, x)
