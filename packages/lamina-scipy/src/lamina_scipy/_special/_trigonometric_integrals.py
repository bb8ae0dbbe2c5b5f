"""Integrals of trigonometric functions: the sine and cosine integrals, Fresnel's integrals."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike

from .._util import SPECIAL, call_real, derivatives, guard, horner, pick
from ._binomial_deviance import compute_log1p
from ._faddeeva import faddeeva_derivative

__all__ = ["fresnel", "sici"]

# x f(x) and x**2 g(x) of the auxiliary functions f and g, DLMF 6.2(iii), for x from 4 up: Chebyshev series in 8 / x - 1.
_F = (0.96578828035185183, -0.043060837778596734, -0.0073143711748104608, 0.0014705235789868065,
      -9.8657685732700207e-5, -2.2743202204655083e-5, 9.8240257322525426e-6, -1.8973430148713314e-6,
      1.0063435941557782e-7, 8.0819364822239345e-8, -3.8976282875287033e-8, 1.0335650325496575e-8,
      -1.4104344875897322e-9, -2.5232078399681216e-10, 2.5699831325960386e-10, -1.0597889253948041e-10,
      2.8970031570213235e-11, -4.1023142563083941e-12, -1.0437693730017139e-12, 1.0994184520546132e-12,
      -5.2214239401676972e-13, 1.7469920787828189e-13, -3.847001297927936e-14, 2.0193365759383478e-16,
      5.3597651042951872e-15, -3.5605976192512647e-15, 1.5788176326315087e-15, -5.2547080035851243e-16,
      1.1378470978947606e-16, 5.1249691355663103e-18, -2.2444159142770491e-17, 1.5316562674295529e-17)
_G = (0.9120488255296583, -0.10747890964438707, -0.014042862912383139, 0.0049592034540746306,
      -0.00062691780467449499, -4.2656567192373624e-5, 4.4682517374294159e-5, -1.2701604662245651e-5,
      1.7726989408159551e-6, 2.2043478749784e-7, -2.3697231484697016e-7, 8.841029352622145e-8,
      -2.0102731016250396e-8, 1.2607667303778686e-9, 1.4522796339583886e-9, -9.1899056938294357e-10,
      3.4212123769554442e-10, -8.4732270897146275e-11, 6.8534650574339546e-12, 6.8955510074834811e-12,
      -5.1721125472901578e-12, 2.2988935694963686e-12, -7.3661873126096631e-13, 1.4374902679539462e-13,
      1.5628021614353256e-14, -3.2911763130996007e-14, 2.0193334153749001e-14, -8.7725011179800834e-15,
      2.868494127741828e-15, -5.7476159194797387e-16, -7.7630050875493026e-17, 1.5864200232134618e-16)


def _sum_chebyshev(t: Any, coefficients: Sequence[float]) -> Any:
    """Sum a Chebyshev series at t in [-1, 1] by Clenshaw's recurrence."""
    before = value = lnp.zeros_like(t)
    for c in coefficients[:0:-1]:
        before, value = value, 2.0 * t * value - before + c
    return t * value - before + coefficients[0]


def _split_far(x: Any) -> tuple[Any, Any, Any]:
    """Where x is 4 and more, and f and g there."""
    far = x > 4.0
    y = guard(far & (x < np.inf), x, 8.0)
    t = 8.0 / y - 1.0
    count = pick(x, 17, 32)
    return far, _sum_chebyshev(t, _F[:count]) / y, _sum_chebyshev(t, _G[:count]) / y / y


@derivatives(lambda out, x: lnp.sinc(x / np.pi))
def _sine_integral(x: Any) -> Any:
    y = lnp.abs(x)
    far, f, g = _split_far(y)
    near = guard(lnp.logical_not(far), x, 0.0)
    count = pick(x, 11, 19)
    series = near * horner(near * near, [(-1) ** k / (2 * k + 1) / math.factorial(2 * k + 1) for k in range(count, -1, -1)])
    z = guard(far & (y < np.inf), y, 8.0)
    large = 0.5 * np.pi - (f * lnp.cos(z) + g * lnp.sin(z))
    large = lnp.where(y == np.inf, 0.5 * np.pi, large)
    return lnp.where(far, lnp.sign(x) * large, series)


@derivatives(lambda out, x: lnp.where(x < 0, np.nan, lnp.where(x == np.inf, 0.0, lnp.cos(guard(x < np.inf, x, 0.0)) / x)))
def _cosine_integral(x: Any) -> Any:
    far, f, g = _split_far(x)
    near = guard((x > 0) & lnp.logical_not(far), x, 1.0)
    count = pick(x, 11, 19)
    series = horner(near * near, [(-1) ** k / (2 * k) / math.factorial(2 * k) for k in range(count, 0, -1)] + [0.0])
    # near the zero at 0.6165 the three parts cancel: there the integral starts at the zero
    small = lnp.where(near < 0.3, float(np.euler_gamma) + lnp.log(near) + series, _near_root(near))
    z = guard(far & (x < np.inf), x, 8.0)
    large = lnp.where(x == np.inf, 0.0, f * lnp.sin(z) - g * lnp.cos(z))
    value = lnp.where(far, large, small)
    return lnp.where(x > 0, value, lnp.where(x == 0, -np.inf, np.nan))


_ROOT_HIGH, _ROOT_LOW = 0.61650550365448, -1.803376374667164e-8


def _near_root(x: Any) -> Any:
    """Ci(x) for x up to 4 as the integral of cos(t) / t from its zero: with r the zero, log(x / r) and the sum of
    (-1)**k (x**(2 k) - r**(2 k)) / (2 k (2 k)!)."""
    r = _ROOT_HIGH + _ROOT_LOW
    step = (x - _ROOT_HIGH) - _ROOT_LOW
    total, power = lnp.zeros_like(x), lnp.zeros_like(x)
    for k in range(1, pick(x, 11, 19) + 1):
        power = power * x * x + r ** (2 * k - 2)  # (x**(2 k) - r**(2 k)) / (x**2 - r**2)
        total = total + (-1) ** k / (2 * k) / math.factorial(2 * k) * power
    return compute_log1p(step / r) + step * (x + r) * total


def _half_turn(x: Any) -> Any:
    """pi x**2 / 2 reduced by multiples of 2 pi, and 0 where the square overflows or x is infinite."""
    x = guard(lnp.abs(x) < pick(x, 1e18, 1e150), x, 0.0)
    square = x * x
    return 0.5 * np.pi * (square - 4.0 * lnp.round(0.25 * square))


def _fresnel_far(x: Any) -> tuple[Any, Any]:
    """S and C of x above 1, by w at 45 degrees: C + iS = (1 + i) / 2 (1 - exp(i pi x**2 / 2) w((1 + i) sqrt(pi) x / 2))."""
    place = 0.5 * math.sqrt(math.pi) * x
    real, imag = faddeeva_derivative(0, place, place)
    turn = _half_turn(x)
    cos, sin = lnp.cos(turn), lnp.sin(turn)
    a, b = 1.0 - (cos * real - sin * imag), -(sin * real + cos * imag)
    return 0.5 * (a + b), 0.5 * (a - b)


def _make_fresnel(sine: bool) -> Any:
    step = 1 if sine else 0

    @derivatives(lambda out, x: (lnp.sin if sine else lnp.cos)(_half_turn(x)))
    def value(x: Any) -> Any:
        y = lnp.abs(x)
        far = y > 1.0
        s, c = _fresnel_far(guard(far, y, 2.0))
        near = guard(lnp.logical_not(far), x, 0.0)
        square = 0.5 * np.pi * near * near
        series = near * square ** step * horner(square * square, [
            (-1) ** k / math.factorial(2 * k + step) / (4 * k + 2 * step + 1) for k in range(pick(x, 5, 9), -1, -1)])
        return lnp.where(far, lnp.sign(x) * (s if sine else c), series)
    return value


_fresnel_sine, _fresnel_cosine = _make_fresnel(True), _make_fresnel(False)


@public_api(entries=SPECIAL)
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Fresnel's integrals: those of `sin(pi t**2 / 2)` and `cos(pi t**2 / 2)` from 0 to x.

    Args: {x}
    Returns:
      Two float arrays of the shape of `x`, the sine integral first; 1/2 with the sign of `x` at infinity.
    Raises: {TypeError, DTypeError}

    Derivative: `sin(pi x**2 / 2)` and `cos(pi x**2 / 2)`.
    Source: meaning of `scipy.special.fresnel`, of real numbers; DLMF 7.2.7, 7.2.8, above 1 by 7.5.8.

    >>> fresnel(np.array([0., np.inf]))
    (Array([0. , 0.5], dtype=float32), Array([0. , 0.5], dtype=float32))
    """
    return call_real("fresnel", _fresnel_sine, x), call_real("fresnel", _fresnel_cosine, x)


@public_api(entries=SPECIAL)
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The sine and the cosine integral.

    Args: {x}
    Returns:
      Two float arrays of the shape of `x`: the integral of `sin(t) / t` from 0 to x; that of `-cos(t) / t` from x to
      infinity, minus infinity at 0 and NaN below.
    Raises: {TypeError, DTypeError}

    Derivative: `sin(x) / x` and `cos(x) / x`.
    Source: meaning of `scipy.special.sici`, of real numbers; DLMF 6.2.9, 6.2.11, above 4 by 6.2.19 and 6.2.20.

    >>> sici(np.array([0., np.inf]))
    (Array([0.       , 1.5707964], dtype=float32), Array([-inf,   0.], dtype=float32))
    """
    return call_real("sici", _sine_integral, x), call_real("sici", _cosine_integral, x)
