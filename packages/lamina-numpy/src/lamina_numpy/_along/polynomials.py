"""Polynomials as arrays of coefficients, highest power first."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import ConcretizationError, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import Tracer, typeof

from .._ground.promotion import cast, fixed, literal, promote_all, to_inexact
from .._ground.publishing import core
from .._ground.axes import split_at
from .._ground.conversion import asarray, put
from .._elementwise.powers import power
from .._shape.layout import atleast_1d
from .._shape.joining import concatenate
from .._make.creation import zeros
from .._elementwise.ufuncs import absolute
from .._reduce.reductions import sum as total
from .._index.repeats import trim_zeros
from ..linalg import lstsq
from .convolution import convolve

__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots",
           "vander"]


@core(name="polyval")
def _polyval(p: Any, x: Any) -> Any:
    weak = typeof(p).weak_type and typeof(x).weak_type
    p, x = promote_all("polyval", [p, x])
    n = typeof(p).shape[0]
    d = typeof(p).dtype
    out = lax.broadcast_in_dim(fixed(0, d), typeof(x).shape, ())
    for i in range(n):  # Horner's scheme
        c = lax.slice(p, (i,), (i + 1,))
        c = lax.squeeze(c, (0,))
        out = lax.add(lax.mul(out, x), c) if i else lax.broadcast_in_dim(c, typeof(x).shape, ())
    return cast(out, d, weak)


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The polynomial's value at `x`, by Horner's scheme.

    >>> polyval(np.array([1, 0, 2]), 3)
    Array(11, dtype=int32)
    """
    p, x = (asarray(v) if isinstance(v, (list, tuple)) else v for v in (p, x))
    return _polyval(p, x)


def _coefficients(call: str, *ps: Any) -> list[Any]:
    out = promote_all(call, [atleast_1d(asarray(p)) for p in ps])
    for p in out:
        if len(typeof(p).shape) != 1:
            raise ValueError(f"{call}: coefficients must have one axis; got {typeof(p).long()}")
    return out


def _level(p: Any, n: int) -> Any:
    short = n - typeof(p).shape[0]
    return lax.pad(p, literal(0, typeof(p).dtype), ((short, 0, 0),)) if short else p


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Sum of two polynomials."""
    x, y = _coefficients("polyadd", a1, a2)
    n = max(typeof(x).shape[0], typeof(y).shape[0])
    return _level(x, n) + _level(y, n)


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Difference of two polynomials."""
    x, y = _coefficients("polysub", a1, a2)
    n = max(typeof(x).shape[0], typeof(y).shape[0])
    return _level(x, n) - _level(y, n)


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Product of two polynomials."""
    x, y = _coefficients("polymul", to_inexact("polymul", asarray(a1)), to_inexact("polymul", asarray(a2)))
    if trim_leading_zeros:
        x, y = trim_zeros(x, "f"), trim_zeros(y, "f")
    return convolve(x, y)


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """(quotient, remainder) of two polynomials; the remainder keeps its leading zeros unless trimmed."""
    x, y = _coefficients("polydiv", to_inexact("polydiv", asarray(u)), to_inexact("polydiv", asarray(v)))
    n, m = typeof(x).shape[0] - 1, typeof(y).shape[0] - 1
    if n < m:
        return zeros((1,), typeof(x).dtype), x
    q = []
    for k in range(n - m + 1):
        c = x[k] / y[0]
        q.append(c)
        x = x.at[k:k + m + 1].add(-c * y)
    quotient = concatenate([atleast_1d(c) for c in q])
    rest = x
    if trim_leading_zeros:
        rest = trim_zeros(rest, "f")
    return quotient, rest


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The `m`-th derivative."""
    if m < 0:
        raise ValueError(f"polyder: m must not be negative; got {m}")
    (out,) = _coefficients("polyder", to_inexact("polyder", asarray(p)))
    for _ in range(m):
        n = typeof(out).shape[0]
        out = split_at(out, [n - 1], 0)[0] * put(np.arange(n - 1, 0, -1), typeof(out).dtype)
    return out


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The `m`-th integral, with constants `k` (zeros unless given)."""
    if m < 0:
        raise ValueError(f"polyint: m must not be negative; got {m}")
    (out,) = _coefficients("polyint", to_inexact("polyint", asarray(p)))
    constants = atleast_1d(asarray(0.0 if k is None else k))
    if typeof(constants).shape[0] not in (1, m) and m:
        raise ValueError(f"polyint: k must be one number or {m}; got {typeof(constants).long()}")
    for i in range(m):
        n = typeof(out).shape[0]
        out = out / put(np.arange(n, 0, -1), typeof(out).dtype)
        c = constants[i if typeof(constants).shape[0] > 1 else 0]
        out = concatenate([out, atleast_1d(c).astype(typeof(out).dtype)])
    return out


def poly(seq_of_zeros: ArrayLike) -> Array:
    """Coefficients of the polynomial with these (one axis of) zeros."""
    zs = to_inexact("poly", atleast_1d(asarray(seq_of_zeros)))
    if len(typeof(zs).shape) != 1:
        raise ValueError(f"poly: expected one axis of zeros; got {typeof(zs).long()}")
    out = asarray([1.0], dtype=typeof(zs).dtype)
    for i in range(typeof(zs).shape[0]):
        out = convolve(out, concatenate([asarray([1.0], dtype=typeof(zs).dtype), atleast_1d(-zs[i])]))
    return out


def _concrete(call: str, x: Any) -> np.ndarray:
    x = asarray(x)
    if isinstance(x, Tracer):
        raise ConcretizationError(f"{call}: runs on the host and needs known values; got a traced {x.aval.long()}")
    return np.asarray(x, np.complex128 if dtypes.is_complex(typeof(x).dtype) else np.float64)


def roots(p: ArrayLike) -> Array:
    """The complex zeros of a polynomial with known coefficients; leading zeros are dropped."""
    return put(np.roots(_concrete("roots", p)).astype(np.complex128), dtypes.canonical_complex())


def polyfit(x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, w: ArrayLike | None = None) -> Array:
    """Coefficients of the least-squares polynomial of degree `deg` through points.

    Args:
      x, y: points `[m]`; `y` may be `[m, k]` for k polynomials. Known ones are fitted on the host in 64 bits.
      deg: the highest power.
      rcond: singular values up to this times the largest count as zero; None for m times the precision of `x`.
      w: weights `[m]` of the residuals.
    """
    if any(isinstance(v, Tracer) for v in (x, y, w)):
        return _polyfit(x, y, *(() if w is None else (w,)), deg=deg, rcond=rcond)
    out = np.polyfit(_concrete("polyfit", x), _concrete("polyfit", y), deg, rcond,
                     w=None if w is None else _concrete("polyfit", w))
    return put(out, dtypes.canonical_complex() if np.iscomplexobj(out) else dtypes.canonical_float())


def _polyfit(x: Any, y: Any, *weights: Any, deg: int, rcond: float | None) -> Any:
    """By singular values of the powers of `x`, each scaled to length one: raw powers differ by orders of magnitude."""
    x, y, *w = promote_all("polyfit", [to_inexact("polyfit", asarray(v)) for v in (x, y, *weights)])
    t = typeof(x)
    if len(t.shape) != 1 or not t.shape[0] or len(typeof(y).shape) not in (1, 2) or typeof(y).shape[0] != t.shape[0]:
        raise ValueError(f"polyfit: expected points x [m] and y [m] or [m, k], m > 0; got {t.long()} and {typeof(y).long()}")
    if deg < 0:
        raise ValueError(f"polyfit: deg must not be negative; got {deg}")
    powers = vander(x, deg + 1)
    if w:
        if typeof(w[0]).shape != t.shape:
            raise ValueError(f"polyfit: weights must have the shape of x {t.shape}; got {typeof(w[0]).shape}")
        powers = powers * w[0][:, None]
        y = y * (w[0] if len(typeof(y).shape) == 1 else w[0][:, None])
    scale = lax.sqrt(total(absolute(powers) ** 2, axis=0))
    cutoff = t.shape[0] * float(np.finfo(np.dtype(typeof(scale).dtype)).eps) if rcond is None else rcond
    found = lstsq(powers / scale, y, cutoff)[0]
    return found / (scale if len(typeof(y).shape) == 1 else scale[:, None])


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Powers of `x` as columns, highest first unless `increasing`."""
    x = asarray(x)
    t = typeof(x)
    if len(t.shape) != 1:
        raise ValueError(f"vander: expected one axis; got {t.long()}")
    n = t.shape[0] if N is None else N
    if n < 0:
        raise ValueError(f"vander: N must not be negative; got {n}")
    powers = np.arange(n) if increasing else np.arange(n)[::-1]
    return power(lax.broadcast_in_dim(x, (t.shape[0], n), (0,)),
                 np.broadcast_to(powers, (t.shape[0], n)).astype(np.int32 if t.dtype == dtypes.BOOL else t.dtype))
