"""Bessel functions of the first kind, modified ones among them."""
from __future__ import annotations

import math
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import SymbolicZero, custom_jvp
from lamina_ir import dtypes
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._util import by_dtype, horner, real, derivatives, real_function, whole_number, within

__all__ = ["bessel_jn", "i0", "i0e", "i1", "i1e"]

_RATIO = tuple(0.5 / (math.factorial(k) * math.factorial(k + 1)) for k in range(12, -1, -1))


def _times_exp(x, scaled):
    """A scaled function times exp(|x|), in two halves so that nothing overflows early."""
    half = lnp.exp(0.5 * lnp.abs(x))
    return lnp.where(lnp.isinf(x), lnp.where(scaled < 0, -np.inf, np.inf), half * scaled * half)


def _ratio(x):
    """i1(x) / x: near 0 by its series, whose own derivative keeps its digits."""
    small = lnp.abs(x) < 2.0
    y = within(small, x, 0.0)
    series = horner(0.25 * y * y, _RATIO)
    return lnp.where(small, series, _i1(x) / within(lnp.logical_not(small), x, 4.0))


@derivatives(lambda out, x: _i1(x))
def _i0(x):
    return _times_exp(x, lax.bessel_i0e(x))


def _i1_derivative(out, x):
    above = _i0(x)
    finite = above < np.inf
    return lnp.where(finite, above - _ratio(within(finite, x, 1.0)), above)


@derivatives(_i1_derivative)
def _i1(x):
    scaled = lax.bessel_i1e(x)
    return lnp.where(lnp.isinf(x), x, _times_exp(x, scaled))


i0 = real_function("i0", _i0, "The modified Bessel function of order 0.", "`i1(x)`", "DLMF 10.25.2",
                   ">>> i0(np.array([0., 2.]))\nArray([1.0000001, 2.2795854], dtype=float32)")
i0e = real_function("i0e", lax.bessel_i0e, "`exp(-|x|) * i0(x)`.",
                    "`i1e(x) - sign(x) i0e(x)`, for large x by a fit of `1 - i1(x) / i0(x)`",
                    "meaning of `scipy.special.i0e`",
                    ">>> i0e(np.array([0., 1000.]))\nArray([1.0000001, 0.01261724], dtype=float32)")
i1 = real_function("i1", _i1, "The modified Bessel function of order 1.", "`i0(x) - i1(x) / x`, 1/2 at 0",
                   "DLMF 10.25.2",
                   ">>> i1(np.array([0., 2.]))\nArray([0.       , 1.5906369], dtype=float32)")
i1e = real_function("i1e", lax.bessel_i1e, "`exp(-|x|) * i1(x)`.",
                    "`i0e(x) - (sign(x) + 1 / x) i1e(x)`, 1/2 at 0, for large x by a fit of `1 - i1(x) / i0(x)`",
                    "meaning of `scipy.special.i1e`",
                    ">>> i1e(np.array([0., 1000.]))\nArray([0.        , 0.01261093], dtype=float32)")


def _hankel(z):
    """J0 and J1 of large z, DLMF 10.17.3."""
    angle_cos, angle_sin = lnp.cos(z), lnp.sin(z)
    # z - pi / 4 and z - 3 pi / 4, without rounding the difference
    plus, minus = (angle_cos + angle_sin) * math.sqrt(0.5), (angle_sin - angle_cos) * math.sqrt(0.5)
    out = []
    for order, cos, sin in ((0, plus, minus), (1, minus, -plus)):
        even, odd, term = lnp.ones_like(z), lnp.zeros_like(z), lnp.ones_like(z)
        for k in range(1, by_dtype(z, 12, 26)):
            term = term * (4.0 * order * order - (2 * k - 1.0) ** 2) / (8.0 * k) / z
            sign = (1.0, 1.0, -1.0, -1.0)[k % 4]
            if k % 2:
                odd = odd + sign * term
            else:
                even = even + sign * term
        out.append(lnp.sqrt(2.0 / np.pi / z) * (even * cos - odd * sin))
    return out


def _orders(z: Any, v: int, least: int) -> Any:
    """J0 to Jv of z, in front: by ratios from high orders down; upwards from J0 and J1 where |z| is above all."""
    size = lnp.abs(z)
    edge = max(float(v), 25.0)
    count = max(int(edge + 30 + 8 * edge ** (1 / 3)), least, v + 2)
    count += count % 2
    down = size <= edge
    y = within(down & (size > 0), size, 1.0)
    tiny = float(dtypes.finfo(typeof(z).dtype).tiny) * 1e3

    def ratio(k: Any, r: Any) -> Any:  # J(k) / J(k - 1), from that of k + 1
        below = 2.0 * k / y - r
        return 1.0 / lnp.where(lnp.abs(below) < tiny, tiny, below)

    def two(i: Any, state: Any) -> Any:
        r, total = state
        k = lnp.astype(count - 2 * i, typeof(z).dtype)
        high = ratio(k, r)
        low = ratio(k - 1.0, high)
        return low, low * high * (1.0 + total)

    first = v + 1 - (v + 1) % 2 if v else 0  # below it the ratios are kept: an even number of orders
    first += first % 2
    r, total = lax.fori_loop(0, (count - first) // 2, two, (lnp.zeros_like(y), lnp.zeros_like(y)))
    ratios = {}
    for k in range(first, 0, -1):
        ratios[k] = r = ratio(lnp.full_like(y, k), r)
        if k % 2:
            total = ratios[k] * ratios[k + 1] * (1.0 + total)
    values = [1.0 / (1.0 + 2.0 * total)]  # J0 + 2 (J2 + J4 + ...) = 1, DLMF 10.12.4
    for k in range(1, v + 1):
        values.append(values[-1] * ratios[k])
    large = within(lnp.logical_not(down), size, 100.0)
    upwards = _hankel(large)
    for k in range(1, v):
        upwards.append(2.0 * k / large * upwards[k] - upwards[k - 1])
    rows = []
    for k, (low, high) in enumerate(zip(values, upwards)):
        row = lnp.where(size == 0, 1.0 if k == 0 else 0.0, lnp.where(down, low, lnp.where(size == np.inf, 0.0, high)))
        row = lnp.where(lnp.isnan(z), z, row)
        rows.append(lnp.where(z < 0, -row, row) if k % 2 else row)
    return lnp.stack(rows)


def _bessel(z: Any, v: int, least: int) -> Any:
    ruled = custom_jvp(lambda z: _orders(z, v, least))

    def rule(primals: Any, tangents: Any) -> Any:
        out = ruled(*primals)
        if isinstance(tangents[0], SymbolicZero):
            return out, lnp.zeros_like(out)
        all_of = _bessel(primals[0], v + 1, least)  # J(k)' = (J(k - 1) - J(k + 1)) / 2, and J0' = -J1
        derivative = lnp.concatenate([-all_of[1:2], 0.5 * (all_of[:v] - all_of[2:v + 2])])
        return out, derivative * tangents[0]
    ruled.defjvp(rule, symbolic_zeros=True)
    return ruled(z)


@public_api("v", "n_iter")
def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of the first kind of the orders 0 to v.

    Args:
      z: real array of any shape; integers and booleans become float.
      v: the highest order, a known int.
      n_iter: how many orders the downward recurrence goes over at least; it takes more where the dtype needs them.
    Returns:
      Float array `[v + 1, *z.shape]`.
    Raises:
      TypeError: `z` is neither an array nor a number; `v` or `n_iter` is traced, or no whole number.
      ValueError: `v` or `n_iter` is negative.
      DTypeError: `z` is complex.

    Derivative: half the difference of the neighbouring orders, DLMF 10.6.1.
    Source: DLMF 10.2.2; by Miller's recurrence as continued fractions, 10.10.1, and far out by 10.17.3.

    >>> bessel_jn(np.array([0., 1.]), v=1)
    Array([[1.        , 0.7651977 ],
           [0.        , 0.44005057]], dtype=float32)
    """
    top, least = whole_number("bessel_jn", "v", v), whole_number("bessel_jn", "n_iter", n_iter)
    return real("bessel_jn", lambda z: _bessel(z, top, least), z)
