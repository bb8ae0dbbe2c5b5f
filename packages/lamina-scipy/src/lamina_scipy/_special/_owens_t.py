"""Owen's T function, an integral of the normal distribution of two variables."""
from __future__ import annotations

import functools
import math
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike, lax

from .._util import call_real, derivatives, guard, pick

__all__ = ["owens_t"]

_ROOT_HALF = math.sqrt(0.5)
_WIDEST = 8.6  # standard deviations, beyond which the normal density is below a rounding error of float64

_PAIR = docstring_entries("""
    TypeError: an argument is neither an array nor a number.
    DTypeError: an argument is complex.
    ShapeError: the shapes do not broadcast.
    """)


@functools.cache
def _gauss_nodes(count: int) -> tuple[list[float], list[float]]:
    """Nodes and weights of the Gauss-Legendre rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (0.5 * nodes + 0.5).tolist(), (0.5 * weights).tolist()


def _integrate(h: Any, a: Any) -> Any:
    """T for h from 0 up and a in [0, 1], by its integral over the part where the integrand is not negligible."""
    width = lnp.minimum(a, _WIDEST / lnp.maximum(h, 1.0))
    total = lnp.zeros_like(h)
    for node, weight in zip(*_gauss_nodes(pick(h, 10, 24))):
        x = node * width
        total = total + weight * lnp.exp(-0.5 * (h * x) * (h * x)) / (1.0 + x * x)
    return lnp.exp(-0.5 * h * h) * width * total / (2.0 * np.pi)


def _derivative_h(out: Any, h: Any, a: Any) -> Any:
    """Minus the density at h times half erf(a h / sqrt(2))."""
    product = lnp.where((h == 0) | (a == 0), 0.0, guard(h != 0, h, 1.0) * guard(a != 0, a, 1.0))
    return -0.5 / math.sqrt(2.0 * math.pi) * lnp.exp(-0.5 * h * h) * lax.erf(_ROOT_HALF * product)


def _derivative_a(out: Any, h: Any, a: Any) -> Any:
    endless = lnp.isinf(a)
    b = guard(lnp.logical_not(endless), a, 0.0)
    square = 1.0 + b * b
    flat = h == 0
    bell = lnp.exp(-0.5 * lnp.where(flat, 0.0, h * guard(lnp.logical_not(flat), h, 1.0) * square))
    return lnp.where(endless, 0.0, bell / square / (2.0 * np.pi))


@derivatives(_derivative_h, _derivative_a)
def _owens_t(h: Any, a: Any) -> Any:
    x, y = lnp.abs(h), lnp.abs(a)
    steep = y > 1.0
    inner = lnp.where(steep, lnp.where(x == 0, 0.0, guard(x != 0, x, 1.0) * guard(steep, y, 1.0)), x)
    part = _integrate(guard(inner < np.inf, inner, 0.0), lnp.where(steep, 1.0 / guard(steep, y, 1.0), y))
    p, q = (0.5 * lax.erfc(_ROOT_HALF * z) for z in (x, inner))
    part = lnp.where(inner == np.inf, 0.0, part)
    size = lnp.where(steep, 0.5 * (p + q) - p * q - part, part)  # Owen (1956), formula 2.3
    return lnp.where(lnp.isnan(h + a), np.nan, lnp.where(a < 0, -size, size))


@public_api(entries=_PAIR)
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T: the probability that X > h and 0 < Y < a X, for independent standard normal X and Y.

    Args:
      h, a: real arrays that broadcast to each other; integers and booleans become float.
    Returns:
      Float array of the common shape, odd in `a` and even in `h`.
    Raises: {TypeError, DTypeError, ShapeError}

    Derivative: `-exp(-h**2 / 2) erf(a h / sqrt(2)) / sqrt(8 pi)` and `exp(-h**2 (1 + a**2) / 2) / (2 pi (1 + a**2))`.
    Source: Owen, "Tables for computing bivariate normal probabilities" (1956); by Gauss-Legendre quadrature.

    >>> owens_t(np.array([1., 2.]), 1.)
    Array([0.06674188, 0.01111628], dtype=float32)
    """
    return call_real("owens_t", _owens_t, h, a)
