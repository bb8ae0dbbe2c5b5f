"""Associated Legendre functions and spherical harmonics, with the phase of Condon and Shortley."""
from __future__ import annotations

import functools
import math
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import jvp
from lamina_ir import dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_numpy.extend import ignore_strict_promotion, public_api, to_inexact
from lamina_tracing import Array, ArrayLike, jit, lax
from lamina_tracing.extend import Tracer, typeof

from .._util import call_real, check_whole_number, derivatives, guard, to_floats

__all__ = ["lpmn", "lpmn_values", "sph_harm", "sph_harm_y"]

_HARMONICS = docstring_entries("""
    m: array of whole numbers, the orders.
    n: array of whole numbers, the degrees.
    n_max: the highest degree in `n`, a known int; it must be given where `n` is traced.
    result: Complex array of the common shape; 0 where the size of m is above n, NaN where n is above `n_max` or negative.
    TypeError: an argument is neither an array nor a number; `n` is traced and `n_max` is not given.
    DTypeError: an argument is complex.
    ShapeError: the shapes do not broadcast.
    """)


def _root_derivative(out: Any, x: Any) -> Any:
    # At 0 the largest number, not infinity: times a cotangent of 0, that of another order, it must be 0.
    return lnp.where(out == 0, float(dtypes.finfo(typeof(x).dtype).max) / 2 ** 10, 0.5 / lnp.where(out == 0, 1.0, out))


_root = derivatives(_root_derivative)(lnp.sqrt)


def _half_power(x: Any, k: int) -> Any:
    """x to the power k / 2."""
    return _root(x) if k == 1 else lnp.power(x, 0.5 * k) if k % 2 else lax.integer_pow(x, k // 2)


def _make_table(z: Any, m: int, n: int, is_normalized: bool) -> Any:
    """Orders 0 to m in front, degrees 0 to n behind them: each from the two degrees before, DLMF 14.10.3."""
    dtype = typeof(z).dtype
    side = (m + 1,) + (1,) * len(typeof(z).shape)
    order = np.arange(m + 1, dtype=np.float64).reshape(side)
    inside = lnp.abs(z) <= 1.0
    square = lnp.where(inside, 1.0, -1.0) * (1.0 - z) * (1.0 + z)
    seeds, factor = [], 1.0
    for k in range(m + 1):
        if k:
            factor = factor * (-math.sqrt((2 * k + 1) / (2 * k)) if is_normalized else -(2 * k - 1.0))
        scale = factor * math.sqrt(0.25 / np.pi) if is_normalized else factor
        value = scale * _half_power(square, k)
        seeds.append(lnp.where(inside, value, (-1.0) ** k * value))
    diagonal = lnp.stack(seeds)
    rows = [lnp.zeros_like(diagonal), lnp.zeros_like(diagonal)]
    for degree in range(n + 1):
        with np.errstate(all="ignore"):
            if is_normalized:
                up = np.sqrt((4.0 * degree ** 2 - 1) / (degree ** 2 - order ** 2))
                back = up * np.sqrt(((degree - 1.0) ** 2 - order ** 2) / (4.0 * (degree - 1) ** 2 - 1))
            else:
                up, back = (2.0 * degree - 1) / (degree - order), (degree + order - 1) / (degree - order)
        above = degree > order
        rise, fall = (lnp.asarray(np.where(above, part, 0.0).astype(dtype)) for part in (up, back))
        step = rise * z * rows[-1] - fall * rows[-2]
        rows.append(lnp.where(degree == order, diagonal, lnp.where(above, step, 0.0)))
    return lnp.stack(rows[2:], 1)


@public_api("m", "n", "is_normalized")
def lpmn_values(m: int, n: int, z: ArrayLike, is_normalized: bool) -> Array:
    """The associated Legendre functions of the first kind, all orders up to m and degrees up to n.

    Args:
      m, n: the highest order and degree, known ints.
      z: real array of any shape.
      is_normalized: whether each is multiplied by `sqrt((2 l + 1) / (4 pi) * (l - k)! / (l + k)!)` for order k and
        degree l, as spherical harmonics are.
    Returns:
      Float array `[m + 1, n + 1, *z.shape]`; zero where the order is above the degree.
    Raises:
      TypeError: `z` is neither an array nor a number; `m` or `n` is traced, or no whole number.
      ValueError: `m` or `n` is negative.
      DTypeError: `z` is complex.

    Source: DLMF 14.10.3 and 14.7.8 with the phase of Condon and Shortley; outside [-1, 1] as `scipy.special.lpmn` had it.

    >>> lpmn_values(1, 1, 0.5, False)
    Array([[ 1.       ,  0.5      ],
           [ 0.       , -0.8660254]], dtype=float32, weak_type=True)
    """
    sizes = check_whole_number("lpmn_values", "m", m), check_whole_number("lpmn_values", "n", n)
    return call_real("lpmn_values", lambda z: _make_table(z, *sizes, bool(is_normalized)), z)


@public_api("m", "n")
def lpmn(m: int, n: int, z: ArrayLike) -> tuple[Array, Array]:
    """The associated Legendre functions of the first kind and their derivatives, all orders up to m and degrees up to n.

    Args:
      m, n: the highest order and degree, known ints.
      z: real array of any shape.
    Returns:
      Two float arrays `[m + 1, n + 1, *z.shape]`: values, and derivatives in z, those of order 1 infinite at -1 and 1.
    Raises:
      TypeError: `z` is neither an array nor a number; `m` or `n` is traced, or no whole number.
      ValueError: `m` or `n` is negative.
      DTypeError: `z` is complex.

    Source: DLMF 14.10.3 with the phase of Condon and Shortley; meaning of `scipy.special.lpmn` up to SciPy 1.16.

    >>> values, derivatives = lpmn(1, 1, 0.5)
    >>> derivatives
    Array([[0.        , 1.        ],
           [0.        , 0.57735026]], dtype=float32, weak_type=True)
    """
    sizes = check_whole_number("lpmn", "m", m), check_whole_number("lpmn", "n", n)
    x, = to_floats("lpmn", z)

    def derivative_z(z):
        derivative = jvp(lambda v: _make_table(v, *sizes, False), (z,), (lnp.ones_like(z),))[1]
        endless = lnp.abs(derivative) > float(dtypes.finfo(typeof(z).dtype).max) / 2 ** 12
        return lnp.where(endless, lnp.copysign(np.inf, derivative), derivative)
    return call_real("lpmn", lambda z: _make_table(z, *sizes, False), x), call_real("lpmn", derivative_z, x)


@fill_docstring(_HARMONICS)
def sph_harm(m: ArrayLike, n: ArrayLike, theta: ArrayLike, phi: ArrayLike, n_max: int | None = None) -> Array:
    """Spherical harmonics.

    Args:
      {m, n}
      theta: real array, the angle around the axis, in radians.
      phi: real array, the angle from the axis, in radians. All four broadcast to each other.
      {n_max}
    Returns: {result}
    Raises: {TypeError, DTypeError, ShapeError}

    Derivative: of the recurrence, in both angles; `m` and `n` have none.
    Source: DLMF 14.30.1 with the angles as `scipy.special.sph_harm` named them.

    >>> sph_harm(np.array([0]), np.array([1]), np.array([0.]), np.array([0.]), n_max=1)
    Array([0.48860252+0.j], dtype=complex64)
    """
    return _harmonics(m, n, theta, phi, top=_highest_degree("sph_harm", n, n_max))


def _highest_degree(call: str, n: Any, n_max: Any) -> int:
    if n_max is None:
        if isinstance(n, Tracer):
            raise TypeError(f"{call}: the highest degree is not known while `n` is traced; give n_max=")
        n_max = max(0, int(np.max(np.asarray(to_inexact(call, n)), initial=0)))
    return check_whole_number(call, "n_max", n_max)


@fill_docstring(_HARMONICS)
def sph_harm_y(n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, diff_n: int | None = None,
               n_max: int | None = None) -> Array:
    """Spherical harmonics, with the order of arguments and the names of the angles of SciPy 1.15.

    Args:
      {n, m}
      theta: real array, the angle from the axis, in radians.
      phi: real array, the angle around the axis, in radians. All four broadcast to each other.
      diff_n: must be None: take derivatives with `jvp` or `grad`.
      {n_max}
    Returns: {result}
    Raises:
      {TypeError, DTypeError, ShapeError}
      NotImplementedError: `diff_n` is not None.

    Derivative: of the recurrence, in both angles; `m` and `n` have none.
    Source: meaning of `scipy.special.sph_harm_y`: `sph_harm(m, n, phi, theta)`.

    >>> sph_harm_y(1, 0, 0., 0.)
    Array(0.48860252+0.j, dtype=complex64, weak_type=True)
    """
    if diff_n is not None:
        raise NotImplementedError(f"sph_harm_y: diff_n must be None; got {diff_n!r}. Differentiate in theta and phi with "
                                  "jvp, or with grad of the real and the imaginary part")
    return _harmonics(m, n, phi, theta, top=_highest_degree("sph_harm_y", n, n_max), call="sph_harm_y")


@functools.partial(jit, static_argnames=("top", "call"), inline=True)
@ignore_strict_promotion
def _harmonics(m: Any, n: Any, theta: Any, phi: Any, top: int, call: str = "sph_harm") -> Any:
    m, n = (to_inexact(call, x) for x in (m, n))
    order, degree, around, down = to_floats(call, m, n, theta, phi)
    order, degree = lax.stop_gradient(order), lax.stop_gradient(degree)
    if typeof(around).dtype.itemsize < 4:
        order, degree, around, down = (lnp.astype(x, dtypes.real_dtype(np.dtype(np.complex64))) for x in (
            order, degree, around, down))
    k = lnp.abs(order)
    x, side = lnp.cos(down), lnp.sin(down)
    diagonal = lnp.full_like(x, math.sqrt(0.25 / np.pi))
    for i in range(1, top + 1):
        diagonal = lnp.where(i <= k, -math.sqrt((2 * i + 1) / (2 * i)) * side * diagonal, diagonal)
    before = value = lnp.zeros_like(x)
    result = lnp.full_like(x, np.nan)
    for l in range(top + 1):
        above = k < l
        j = guard(above, k, 0.0)
        up = lnp.sqrt((4.0 * l * l - 1.0) / (l * l - j * j)) if l else lnp.zeros_like(x)
        back = up * lnp.sqrt(((l - 1.0) ** 2 - j * j) / (4.0 * (l - 1.0) ** 2 - 1.0)) if l > 1 else lnp.zeros_like(x)
        before, value = value, lnp.where(k == l, diagonal, lnp.where(above, up * x * value - back * before, 0.0))
        result = lnp.where(degree == l, lnp.where(k <= l, value, 0.0), result)
    phase = lax.complex(lnp.cos(k * around), lnp.sin(k * around))
    positive = phase * result
    flip = 1.0 - 2.0 * lnp.remainder(k, 2.0)
    return lnp.where(order < 0, flip * lnp.conj(positive), positive)
