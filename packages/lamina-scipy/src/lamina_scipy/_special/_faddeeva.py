"""The Faddeeva function and its real relatives: Dawson's integral and the scaled complementary error function."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import dtypes
from lamina_numpy.extend import public_api, to_inexact
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._util import SPECIAL, derivatives, guard, make_real_function, pick

__all__ = ["dawsn", "erfcx", "wofz"]

_ROOT_PI = math.sqrt(math.pi)
_NODES = 14
_STEP = math.sqrt(math.pi / _NODES)  # the discretization error is exp(-(pi / _STEP)**2) = exp(-44)


def _hermite(n: int, x: Any) -> Any:
    """The polynomial H(n) of physicists, times (-1)**n: the factor of the derivative n of exp(-x**2)."""
    before, value = 0.0 * x, 1.0 + 0.0 * x
    for k in range(n):
        before, value = value, -2.0 * x * value - 2.0 * k * before
    return value


def _multiply(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _gauss_derivative(n: int, x: Any, y: Any) -> tuple[Any, Any]:
    """The derivative n of exp(-z**2) at z = x + iy, as real and imaginary part."""
    size, angle = lnp.exp((y - x) * (y + x)), -2.0 * x * y
    value = size * lnp.cos(angle), lnp.where(angle == 0, angle, size * lnp.sin(angle))  # no infinity times 0
    before, factor = (0.0 * x, 0.0 * x), (lnp.ones_like(x), 0.0 * x)
    for k in range(n):
        rise = _multiply((-2.0 * x, -2.0 * y), factor)
        before, factor = factor, (rise[0] - 2.0 * k * before[0], rise[1] - 2.0 * k * before[1])
    return _multiply(factor, value) if n else value


def _sum_nodes(n: int, x: Any, y: Any, shift: Any) -> tuple[Any, Any]:
    """i / pi times the trapezoidal sum of the derivative n of exp(-t**2), over z - t. The nodes t and -t are taken together:
    then no part is a difference of numbers that cancel."""
    real, imag = lnp.zeros_like(x), lnp.zeros_like(x)
    for k in range(_NODES):
        whole, half = k * _STEP, (k + 0.5) * _STEP
        t = lnp.where(shift, half, whole)
        weights = [_hermite(n, s) * math.exp(-s * s) * _STEP / math.pi for s in (whole, half)]
        weight = lnp.where(shift, weights[1], 0.5 * weights[0] if k == 0 else weights[0])
        a, b = (x - t) * (x - t) + y * y, (x + t) * (x + t) + y * y
        if n % 2:
            real = real + weight * (4.0 * x * y * t) / a / b
            imag = imag + weight * (2.0 * t) * ((x - t) * (x + t) - y * y) / a / b
        else:
            real = real + weight * y * (1.0 / a + 1.0 / b)
            imag = imag + weight * (2.0 * x) * ((x - t) * (x + t) + y * y) / a / b
    return real, imag


def _correct_poles(n: int, x: Any, y: Any, shift: Any) -> tuple[Any, Any]:
    """What the sum lacks because of the pole at z: 2 / (1 + exp(-2 pi i z / h)) times the derivative n of exp(-z**2); with
    a minus sign where the nodes are whole multiples of h."""
    turn = 2.0 / _STEP * x
    turn = np.pi * (turn - 2.0 * lnp.round(0.5 * turn))
    size = lnp.where(shift, 1.0, -1.0) * lnp.exp(-2.0 * np.pi / _STEP * y)
    small = size * lnp.cos(turn), size * lnp.sin(turn)
    under = (1.0 + small[0]) * (1.0 + small[0]) + small[1] * small[1]
    share = _multiply(small, (2.0 * (1.0 + small[0]) / under, -2.0 * small[1] / under))
    return _multiply(share, _gauss_derivative(n, x, y))


def _expand_far(n: int, x: Any, y: Any) -> tuple[Any, Any]:
    """The asymptotic expansion of the derivative n: that of i / sqrt(pi) times the sum of (1/2)_k / z**(2k + 1)."""
    top = lnp.maximum(lnp.maximum(x, y), 1.0)
    p, q = guard(x < np.inf, x / top, 0.0), guard(y < np.inf, y / top, 0.0)
    size = guard(top < np.inf, p * p + q * q, 1.0)
    inverse = p / size / top, -q / size / top
    square = _multiply(inverse, inverse)
    total = lnp.zeros_like(x), lnp.zeros_like(x)
    rising = [math.prod(j + 0.5 for j in range(k)) * math.perm(2 * k + n, n) for k in range(pick(x, 8, 13) if n else 2)]
    for c in reversed(rising):
        total = _multiply(total, square)
        total = total[0] + c, total[1]
    value = -(-1) ** n / _ROOT_PI * total[1], (-1) ** n / _ROOT_PI * total[0]
    for _ in range(n + 1):
        value = _multiply(value, inverse)
    return value


def faddeeva_derivative(n: int, x: Any, y: Any) -> tuple[Any, Any]:
    """The derivative n of w(z) at z = x + iy, for x and y that are not negative, as real and imaginary part."""
    # Far out the nodes of a derivative cancel; the value's do not, and keep the digits of the smaller part near an axis.
    far = lnp.maximum(x, y) > (pick(x, 7.0, 12.0) if n else pick(x, 1e4, 1e8))
    p, q = guard(lnp.logical_not(far), x, 1.0), guard(lnp.logical_not(far), y, 1.0)
    place = p / _STEP
    shift = lnp.abs(place - lnp.round(place)) < 0.25  # the nodes are at least a quarter of a step from x
    real, imag = _sum_nodes(n, p, q, shift)
    near = q < lnp.maximum(p, np.pi / _STEP)
    more = _correct_poles(n, guard(near, p, 1.0), guard(near, q, 1.0), shift)
    outer = _expand_far(n, guard(far, x, 1e9), guard(far, y, 1e9))
    return tuple(lnp.where(lnp.isnan(x + y), np.nan, lnp.where(far, e, s + lnp.where(near, m, 0.0)))
                 for e, s, m in zip(outer, (real, imag), more))


@functools.cache
def _dawson(n: int) -> Callable[[Any], Any]:
    """The derivative n of Dawson's integral, which is sqrt(pi) / 2 times the imaginary part of w."""
    @derivatives(lambda out, x: _dawson(n + 1)(x))
    def value(x: Any) -> Any:
        size = 0.5 * _ROOT_PI * faddeeva_derivative(n, lnp.abs(x), lnp.zeros_like(x))[1]
        return size if n % 2 else lnp.sign(x) * size
    return value


@functools.cache
def _scaled_erfc(n: int) -> Callable[[Any], Any]:
    """The derivative n of erfcx(x) = w(ix)."""
    @derivatives(lambda out, x: _scaled_erfc(n + 1)(x))
    def value(x: Any) -> Any:
        real, imag = faddeeva_derivative(n, lnp.zeros_like(x), lnp.abs(x))
        part = (real, -imag, -real, imag)[n % 4]
        left = x < 0  # there it is 2 exp(x**2) less that of -x
        z = guard(left, x, 0.0)
        bell = 2.0 * lnp.exp(z * z)
        before, factor = lnp.zeros_like(z), lnp.ones_like(z)
        for k in range(n):
            before, factor = factor, 2.0 * z * factor + 2.0 * k * before
        return lnp.where(left, bell * factor - (-1) ** n * part, part)
    return value


@functools.cache
def _complex_faddeeva(n: int) -> Callable[[Any], Any]:
    """The derivative n of w(z) of a complex array."""
    @derivatives(lambda out, z: _complex_faddeeva(n + 1)(z))
    def value(z: Any) -> Any:
        x, y = lax.real(z), lax.imag(z)
        real, imag = faddeeva_derivative(n, lnp.abs(x), lnp.abs(y))
        # w(-conj(z)) = conj(w(z)); below the real axis w(z) = 2 exp(-z**2) - w(-z)
        low = lnp.signbit(y) & (y != 0)
        turned = lnp.where(low, lnp.signbit(-x), lnp.signbit(x))
        flip = lnp.where(turned, -1.0, 1.0)
        real, imag = (flip * real, imag) if n % 2 else (real, flip * imag)
        bell = _gauss_derivative(n, guard(low, x, 0.0), guard(low, y, 0.0))
        sign = -(-1) ** n
        return lax.complex(lnp.where(low, 2.0 * bell[0] + sign * real, real),
                           lnp.where(low, 2.0 * bell[1] + sign * imag, imag))
    return value


def compute_erfcx(x: Any) -> Any:
    """`exp(x**2) * erfc(x)` of an array."""
    return _scaled_erfc(0)(x)


dawsn = make_real_function(
    "dawsn", lambda x: _dawson(0)(x), "Dawson's integral: `exp(-x**2)` times the integral of `exp(t**2)` from 0 to x.",
    "`1 - 2 x dawsn(x)`, without cancellation far out",
    "meaning of `scipy.special.dawsn`; by a trapezoidal sum with pole correction, as `wofz`",
    ">>> dawsn(np.array([0., 1., -np.inf]))\nArray([ 0.       ,  0.5380795, -0.       ], dtype=float32)")
erfcx = make_real_function(
    "erfcx", compute_erfcx, "`exp(x**2) * erfc(x)`, the scaled complementary error function.",
    "`2 x erfcx(x) - 2 / sqrt(pi)`, without cancellation far out",
    "meaning of `scipy.special.erfcx`; by a trapezoidal sum with pole correction, as `wofz`",
    ">>> erfcx(np.array([0., 100., np.inf]))\nArray([1.        , 0.00564161, 0.        ], dtype=float32)",
    "Float array of the shape of `x`, positive; infinite far below zero.")


@public_api(entries=SPECIAL)
def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function, `exp(-z**2) * erfc(-1j * z)`.

    Args:
      z: number array of any shape; integers, booleans and real numbers become complex.
    Returns:
      Complex array of the shape of `z`: complex128 for float64 and complex128, else complex64.
    Raises: {TypeError}

    Derivative: `2j / sqrt(pi) - 2 z wofz(z)`, without cancellation far out.
    Source: meaning of `scipy.special.wofz`; Al Azah and Chandler-Wilde, "Computation of the complex error function using
      modified trapezoidal rules" (2021).

    >>> wofz(np.array([0., 1j]))
    Array([1.        +0.j, 0.42758358+0.j], dtype=complex64)
    """
    x = lnp.asarray(to_inexact("wofz", z))
    if dtypes.is_complex(typeof(x).dtype):
        return _complex_faddeeva(0)(x)
    wide = typeof(x).dtype == np.float64
    return _complex_faddeeva(0)(lnp.astype(x, np.complex128 if wide else np.complex64))
