"""Polynomials as arrays of coefficients, highest power first."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import ConcretizationError, dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import as_int, Tracer, typeof

from .._core.promotion import (broadcast, broadcast_shapes_of, cast, check_promotion, literal, make_constant, promote_all,
                               to_inexact, work_dtype)
from .._core.public_api import jitted_core
from .._core.axes import split_at
from .._core.conversion import asarray, put, wrap_host_values
from .._elementwise.powers import power
from .._shape.layout import atleast_1d
from .._shape.joining import concatenate
from .._creation.creation import zeros
from .._elementwise.ufuncs import absolute
from .._reductions.reductions import sum as total
from .._indexing.repeats import trim_zeros
from ..linalg import eigvals, inv, lstsq
from .convolution import convolve

__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots",
           "vander"]


_SUM = docstring_entries("""
    a1, a2: coefficients `[n]`, highest power first; a number for a constant, or a list.
    longer: Array as long as the longer one, in the dtype that both promote to; leading zeros stay.
    ValueError: coefficients have more than one axis.
    TypeError: an argument is neither an array nor a number.
    """)


@jitted_core(name="polyval")
def _polyval(p: Any, x: Any) -> Any:
    weak = typeof(p).weak_type and typeof(x).weak_type
    p, x = promote_all("polyval", [p, x])
    if not typeof(p).shape:
        raise ValueError(f"polyval: p must hold coefficients along its first axis; got {typeof(p).str_long()}")
    n, *rest = typeof(p).shape
    final, own = typeof(p).dtype, tuple(rest)
    d = work_dtype(final)
    p, x = cast(p, d, typeof(p).weak_type), cast(x, d, typeof(x).weak_type)
    shape = broadcast_shapes_of("polyval", (own, typeof(x).shape)) if own else typeof(x).shape
    x = broadcast(x, typeof(x).shape, shape)
    out = lax.broadcast_in_dim(make_constant(0, d), shape, ())
    for i in range(n):  # Horner's scheme
        c = lax.squeeze(lax.slice(p, (i,) + (0,) * len(own), (i + 1, *own)), (0,))
        c = broadcast(c, own, shape) if own else c
        out = lax.add(lax.mul(out, x), c) if i else c if own else lax.broadcast_in_dim(c, shape, ())
    return cast(out, final, weak)


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The value of a polynomial, by Horner's scheme.

    Args:
      p: coefficients `[n, ...]`, highest power first, the further axes broadcasting with `x`; or a list.
      x: number array of any shape, or a list.
      unroll: of no effect: the scheme is always written out.
    Returns:
      Array of the shape of `x`, or what the axes broadcast to, in the dtype that both promote to; 0 without
      coefficients.
    Raises:
      ValueError: `p` has no axes.
      ShapeError: the further axes of `p` do not broadcast with `x`.
      TypeError: `p` or `x` is neither an array nor a number.

    Source: meaning of `numpy.polyval`.

    >>> polyval(np.array([1, 0, 2]), 3)
    Array(11, dtype=int32)
    """
    p, x = (asarray(v) if isinstance(v, (list, tuple)) else v for v in (p, x))
    return _polyval(p, x)


def _to_coefficients(call: str, *ps: Any) -> list[Any]:
    out = promote_all(call, [atleast_1d(asarray(p)) for p in ps])
    for p in out:
        if len(typeof(p).shape) != 1:
            raise ValueError(f"{call}: coefficients must have one axis; got {typeof(p).str_long()}")
    return out


def _pad_front(p: Any, n: int) -> Any:
    short = n - typeof(p).shape[0]
    return lax.pad(p, literal(0, typeof(p).dtype), ((short, 0, 0),)) if short else p


@fill_docstring(_SUM)
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Sum of two polynomials.

    Args: {a1, a2}
    Returns: {longer}
    Raises: {ValueError, TypeError}

    Derivative: linear.
    Source: meaning of `numpy.polyadd`.

    >>> polyadd(np.array([1, 2]), np.array([1, 0, 0]))
    Array([1, 1, 2], dtype=int32)
    """
    x, y = _to_coefficients("polyadd", a1, a2)
    n = max(typeof(x).shape[0], typeof(y).shape[0])
    return _pad_front(x, n) + _pad_front(y, n)


@fill_docstring(_SUM)
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Difference of two polynomials.

    Args: {a1, a2}
    Returns: {longer}
    Raises:
      {ValueError}
      TypeError: an argument is neither an array nor a number, or both hold booleans.

    Derivative: linear.
    Source: meaning of `numpy.polysub`.

    >>> polysub(np.array([1, 2]), np.array([1, 0, 0]))
    Array([-1,  1,  2], dtype=int32)
    """
    x, y = _to_coefficients("polysub", a1, a2)
    n = max(typeof(x).shape[0], typeof(y).shape[0])
    return _pad_front(x, n) - _pad_front(y, n)


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Product of two polynomials.

    Args:
      a1, a2: coefficients `[n]` and `[m]`, highest power first; a number for a constant, or a list.
      trim_leading_zeros: whether to drop leading zeros of both first; needs known values.
    Returns:
      Float array `[n + m - 1]`, in the dtype that both promote to, integers and booleans to float.
    Raises:
      ValueError: there are no coefficients, or they have more than one axis.
      TypeError: an argument is neither an array nor a number.
      ConcretizationError: `trim_leading_zeros` of traced coefficients.

    Derivative: linear in either one.
    Source: meaning of `numpy.polymul`, there in integers for integers.

    >>> polymul(np.array([1, 2]), np.array([1, 3]))
    Array([1., 5., 6.], dtype=float32)
    """
    check_promotion("polymul", asarray(a1), asarray(a2))
    x, y = _to_coefficients("polymul", to_inexact("polymul", asarray(a1)), to_inexact("polymul", asarray(a2)))
    if trim_leading_zeros:
        x, y = trim_zeros(x, "f"), trim_zeros(y, "f")
    return convolve(x, y)


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Quotient and remainder of two polynomials.

    Args:
      u: dividend, coefficients `[n]`, highest power first; a number for a constant, or a list.
      v: divisor, coefficients `[m]` likewise; its first one should not be 0.
      trim_leading_zeros: whether to drop leading zeros of the remainder; needs known values.
    Returns:
      `(quotient, remainder)`: float arrays `[n - m + 1]` (a single 0 where n < m) and `[n]`, in the dtype that both
      promote to; `u = quotient v + remainder`. inf or NaN where the first of `v` is 0.
    Raises:
      ValueError: `v` has no coefficients, or one has more than one axis.
      TypeError: an argument is neither an array nor a number.
      ConcretizationError: `trim_leading_zeros` of traced coefficients.

    Source: meaning of `numpy.polydiv`, which always drops the remainder's leading zeros.

    >>> polydiv(np.array([1., 3., 3.]), np.array([1., 1.]))
    (Array([1., 2.], dtype=float32), Array([0., 0., 1.], dtype=float32))
    """
    check_promotion("polydiv", asarray(u), asarray(v))
    x, y = _to_coefficients("polydiv", to_inexact("polydiv", asarray(u)), to_inexact("polydiv", asarray(v)))
    n, m = typeof(x).shape[0] - 1, typeof(y).shape[0] - 1
    if m < 0:
        raise ValueError("polydiv: the divisor has no coefficients")
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
    """A derivative of a polynomial.

    Args:
      p: coefficients `[n]`, highest power first; a number for a constant, or a list.
      m: which derivative, not negative.
    Returns:
      Float array `[n - m]`, of length 0 where there is none; integers and booleans become float.
    Raises:
      ValueError: `m` is negative, or `p` has more than one axis.
      TypeError: an argument is neither an array nor a number.

    Derivative: linear.
    Source: meaning of `numpy.polyder`, there in integers for integers.

    >>> polyder(np.array([1., 0., 2.]))
    Array([2., 0.], dtype=float32)
    """
    m = as_int("polyder", "m", m)
    if m < 0:
        raise ValueError(f"polyder: m must not be negative; got {m}")
    (out,) = _to_coefficients("polyder", to_inexact("polyder", asarray(p)))
    for _ in range(m):
        n = typeof(out).shape[0]
        out = split_at(out, [n - 1], 0)[0] * put(np.arange(n - 1, 0, -1), typeof(out).dtype)
    return out


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """An integral of a polynomial.

    Args:
      p: coefficients `[n]`, highest power first; a number for a constant, or a list.
      m: how many times to integrate, not negative.
      k: constants of integration, `[m]` in the order of integration, or one for all; None for zeros.
    Returns:
      Float array `[n + m]`; integers and booleans become float.
    Raises:
      ValueError: `m` is negative, `p` has more than one axis, or `k` another length.
      TypeError: an argument is neither an array nor a number.

    Derivative: linear.
    Source: meaning of `numpy.polyint`.

    >>> polyint(np.array([2., 2.]), k=5.0)
    Array([1., 2., 5.], dtype=float32)
    """
    m = as_int("polyint", "m", m)
    if m < 0:
        raise ValueError(f"polyint: m must not be negative; got {m}")
    (out,) = _to_coefficients("polyint", to_inexact("polyint", asarray(p)))
    constants = atleast_1d(asarray(0.0 if k is None else k))
    if typeof(constants).shape[0] not in (1, m) and m:
        raise ValueError(f"polyint: k must be one number or {m}; got {typeof(constants).str_long()}")
    for i in range(m):
        n = typeof(out).shape[0]
        out = out / put(np.arange(n, 0, -1), typeof(out).dtype)
        c = constants[i if typeof(constants).shape[0] > 1 else 0]
        out = concatenate([out, atleast_1d(c).astype(typeof(out).dtype)])
    return out


def poly(seq_of_zeros: ArrayLike) -> Array:
    """Coefficients of the polynomial with given zeros.

    Args:
      seq_of_zeros: number array `[n]`, a number, or a list; or a matrix `[n, n]`, whose eigenvalues are meant.
    Returns:
      Float or complex array `[n + 1]`, highest power first, 1; of no zeros the number 1.
    Raises:
      ValueError: there are more axes, or the matrix is not square.
      TypeError: an argument is neither an array nor a number.

    Source: meaning of `numpy.poly`, which makes conjugate zeros' results real.

    >>> poly(np.array([1., 2.]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    zs = to_inexact("poly", atleast_1d(asarray(seq_of_zeros)))
    sizes = typeof(zs).shape
    if len(sizes) == 2 and sizes[0] == sizes[1]:
        zs = eigvals(zs)
    elif len(sizes) != 1:
        raise ValueError(f"poly: expected one axis of zeros, or a square matrix; got {typeof(zs).str_long()}")
    if not sizes[0]:
        return asarray(1.0, dtype=typeof(zs).dtype)
    out = asarray([1.0], dtype=typeof(zs).dtype)
    for i in range(typeof(zs).shape[0]):
        out = convolve(out, concatenate([asarray([1.0], dtype=typeof(zs).dtype), atleast_1d(-zs[i])]))
    return out


def _require_concrete(call: str, x: Any) -> np.ndarray:
    x = asarray(x)
    if isinstance(x, Tracer):
        raise ConcretizationError(f"{call}: runs on the host and needs known values; got a traced {x.aval.str_long()}")
    return np.asarray(x, np.complex128 if dtypes.is_complex(typeof(x).dtype) else np.float64)


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The zeros of a polynomial with known coefficients.

    Args:
      p: coefficients `[n]`, highest power first; a number for a constant, or a list; leading zeros are dropped.
      strip_zeros: False gives `n - 1` numbers in any case, NaN in place of those that leading zeros leave out; `p` may
        then be traced, and all are NaN where its first coefficient is 0.
    Returns:
      Array of the default complex dtype, one per power that is left, in no certain order; computed on the host in
      float64.
    Raises:
      ValueError: `p` has more than one axis, or holds infinities or NaN.
      ConcretizationError: `p` is traced, and `strip_zeros` not False.
      TypeError: an argument is neither an array nor a number.

    Source: meaning of `numpy.roots`, which computes it, always complex.

    >>> roots(np.array([1., -3., 2.]))
    Array([2.+0.j, 1.+0.j], dtype=complex64)
    """
    if isinstance(p, Tracer) and not strip_zeros:
        return _roots(p)
    known = _require_concrete("roots", p)
    found = np.roots(np.atleast_1d(known)).astype(np.complex128)
    if not strip_zeros:
        found = np.concatenate([found, np.full(max(known.size - 1, 0) - found.size, complex(np.nan, np.nan))])
    return put(found, dtypes.canonical_complex())


def _roots(p: Any) -> Any:
    """The eigenvalues of the companion matrix."""
    p = to_inexact("roots", p)
    t = typeof(p)
    if len(t.shape) != 1:
        raise ValueError(f"roots: expected coefficients of one axis; got {t.str_long()}")
    n = max(t.shape[0] - 1, 0)
    if not n:
        return zeros(0, dtypes.canonical_complex())
    rows = [(-p[1:] / p[0])[None], np.eye(n - 1, n, dtype=t.dtype)] if n > 1 else [(-p[1:] / p[0])[None]]
    return cast(eigvals(concatenate(rows, 0)), dtypes.canonical_complex())


def polyfit(x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False,
            w: ArrayLike | None = None, cov: bool | str = False) -> Any:
    """Coefficients of the least-squares polynomial through points.

    Args:
      x: number array `[n]`, or a list: where.
      y: number array `[n]` or `[n, k]`, or a list: the values there.
      deg: degree, a known int, not negative.
      rcond: singular values up to this times the largest count as zero; None for n times the precision of the dtype
        computed in.
      full: also return the diagnostics of the least-squares solution; `cov` is then ignored.
      w: number array `[n]`: weights of the residuals, not of their squares; None for all alike.
      cov: also give the covariance of the coefficients, scaled by the residuals; "unscaled": without that.
    Returns:
      With `full`, (coefficients, sums of squared residuals, rank, singular values, `rcond`); with `cov`, (coefficients,
      covariance `[deg + 1, deg + 1]` or `[deg + 1, deg + 1, k]`); else the coefficients:
      Array `[deg + 1]` or `[deg + 1, k]`, highest power first. In the float that the points promote to, complex
      where `x` or `y` is; of known ones computed on the host in float64.
    Raises:
      ValueError: `deg` is negative, traced `x`, `y` and `w` have other shapes, or there are too few points to scale the
        covariance.
      TypeError: known `x`, `y` and `w` have other shapes, or one is neither an array nor numbers.

    Source: meaning of `numpy.polyfit`, known points go to it, traced ones to `lstsq` of scaled
      powers.

    >>> polyfit(np.array([0., 1., 2.]), np.array([1., 3., 5.]), 1)
    Array([2., 1.], dtype=float32)
    """
    if any(isinstance(v, Tracer) for v in (x, y, w)):
        return _polyfit(x, y, *(() if w is None else (w,)), deg=deg, rcond=rcond, full=bool(full), cov=cov)
    host: Any = np.polyfit  # its overloads know no `bool`
    out = host(_require_concrete("polyfit", x), _require_concrete("polyfit", y), deg, rcond, full,
               None if w is None else _require_concrete("polyfit", w), cov)
    d = typeof(_to_points(x, y, *(() if w is None else (w,)))[0]).dtype
    if not isinstance(out, tuple):
        return put(out, d)
    found = tuple([put(np.asarray(v), d if np.iscomplexobj(v) else dtypes.real_dtype(d)) for v in out])
    return (*found[:2], put(np.asarray(out[2], np.int32), np.dtype("int32")), *found[3:]) if full else found


def _to_points(*xs: Any) -> list[Any]:
    return promote_all("polyfit", [to_inexact("polyfit", asarray(v)) for v in xs])


def _polyfit(x: Any, y: Any, *weights: Any, deg: int, rcond: float | None, full: bool, cov: bool | str) -> Any:
    """By singular values of the powers of `x`, each scaled to length one: raw powers differ by orders of magnitude."""
    x, y, *w = _to_points(x, y, *weights)
    t = typeof(x)
    if t.dtype.itemsize < 4:
        single = np.dtype("float32")
        out = _polyfit(*[cast(v, single) for v in (x, y, *w)], deg=deg, rcond=rcond, full=full, cov=cov)
        narrow = tuple([cast(v, t.dtype) if getattr(v, "dtype", None) == single else v
                        for v in (out if isinstance(out, tuple) else (out,))])
        return narrow if isinstance(out, tuple) else narrow[0]
    if len(t.shape) != 1 or not t.shape[0] or len(typeof(y).shape) not in (1, 2) or typeof(y).shape[0] != t.shape[0]:
        raise ValueError(f"polyfit: expected points x [m] and y [m] or [m, k], m > 0; got {t.str_long()} and "
                         f"{typeof(y).str_long()}")
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
    powers = powers / scale[None]
    found, residuals, rank, s = lstsq(powers, y, cutoff)
    found = found / (scale if len(typeof(y).shape) == 1 else scale[:, None])
    if full:
        return found, residuals, rank, s, cutoff
    if not cov:
        return found
    base = inv(powers.T @ powers) / (scale[:, None] * scale[None])
    if cov != "unscaled":
        if t.shape[0] <= deg + 1:
            raise ValueError(f"polyfit: {t.shape[0]} points are too few to scale the covariance of {deg + 1} coefficients; "
                             "use cov='unscaled'")
        factor = residuals / (t.shape[0] - (deg + 1))
        base = base * factor[None] if len(typeof(y).shape) == 1 else base[:, :, None] * factor[None, None]
    return found, base


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Powers of numbers as columns: a Vandermonde matrix.

    Args:
      x: number array `[n]`, or a list.
      N: number of columns, not negative; None for n.
      increasing: powers 0, 1, ... rather than N - 1, ..., 0.
    Returns:
      Array `[n, N]` of the dtype of `x`; booleans become integers.
    Raises:
      ValueError: `x` has not one axis, or `N` is negative.
      TypeError: `x` is neither an array nor a number.

    Source: meaning of `numpy.vander`.

    >>> vander(np.array([2, 3]), 3)
    Array([[4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    x = asarray(x)
    t = typeof(x)
    if len(t.shape) != 1:
        raise ValueError(f"vander: expected one axis; got {t.str_long()}")
    n = t.shape[0] if N is None else as_int("vander", "N", N)
    if n < 0:
        raise ValueError(f"vander: N must not be negative; got {n}")
    powers = np.arange(n) if increasing else np.arange(n)[::-1]
    if t.dtype == dtypes.BOOL:
        x = cast(x, np.dtype(np.int32))
    return power(lax.broadcast_in_dim(x, (t.shape[0], n), (0,)),
                 wrap_host_values(powers[None].astype(np.int32 if t.dtype == dtypes.BOOL else t.dtype)))
