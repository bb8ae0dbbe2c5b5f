"""Matrices given by a vector: circulant, Hankel, companion, Fiedler's, Leslie's, and those of convolutions."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
from lamina_ir import ShapeError
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import ignore_strict_promotion, public_api, to_inexact
from lamina_tracing import Array, ArrayLike
from lamina_tracing.extend import typeof

from ._special_matrices import toeplitz

__all__ = ["circulant", "companion", "convolution_matrix", "fiedler", "fiedler_companion", "hankel", "leslie"]

_ENTRIES = docstring_entries("""
    a: number array `[..., n]`.
    TypeError: an argument is neither an array nor a number.
    """)


def _to_vectors(call: str, argument: str, x: Any, least: int) -> Any:
    """Return an array whose last axis has at least `least` elements."""
    to_inexact(call, lnp.asarray(x) if isinstance(x, (list, tuple)) else x)
    x = lnp.asarray(x)
    shape = typeof(x).shape
    if not shape or shape[-1] < least:
        raise ShapeError(f"{call}: {argument} must have at least {least} element{'s' * (least > 1)} along its last axis; got "
                         f"{typeof(x).str_long()}")
    return x


def _set_row(x: Any, below: Any) -> Any:
    """Stack a row `[..., n]` on rows `[..., m, n]`, which broadcast to its leading axes."""
    lead, shape = typeof(x).shape[:-1], typeof(below).shape
    rows = lnp.astype(lnp.broadcast_to(below, (*lead, *shape[-2:])), typeof(x).dtype)
    return lnp.concatenate([lnp.expand_dims(x, -2), rows], -2)


@public_api()
def circulant(c: ArrayLike) -> Array:
    """Matrices of which each column is the one before, rotated by one.

    Args:
      c: number array `[..., n]`: the first column.
    Returns:
      Array `[..., n, n]` of the dtype of `c`.
    Raises:
      ShapeError: `c` has no axes, or no elements along the last one.
      TypeError: `c` is neither an array nor a number.

    Derivative: linear.
    Source: meaning of `scipy.linalg.circulant`.

    >>> circulant(np.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    c = _to_vectors("circulant", "c", c, 1)
    return toeplitz(c, lnp.roll(lnp.flip(c, -1), 1, -1))


@public_api(entries=_ENTRIES)
@ignore_strict_promotion
def companion(a: ArrayLike) -> Array:
    """Matrices whose characteristic polynomials have given coefficients.

    Args:
      a: number array `[..., n]`, n at least 2: the coefficients from the highest power down, the first not 0.
    Returns:
      Float or complex array `[..., n - 1, n - 1]`: the first row is `-a[1:] / a[0]`, ones are below the diagonal.
    Raises:
      ShapeError: `a` has fewer than two elements along its last axis.
      {TypeError}

    Source: meaning of `scipy.linalg.companion`.

    >>> companion(np.array([1., -10., 31., -30.]))
    Array([[ 10., -31.,  30.],
           [  1.,   0.,   0.],
           [  0.,   1.,   0.]], dtype=float32)
    """
    x = lnp.asarray(to_inexact("companion", _to_vectors("companion", "a", a, 2)))
    row = -x[..., 1:] / x[..., :1]
    n = typeof(row).shape[-1]
    return _set_row(row, lnp.eye(n - 1, n))


@public_api("n", "mode")
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """Matrices `A` such that `A @ v` is the convolution of `a` with `v` of n elements.

    Args:
      a: number array `[..., m]`.
      n: the number of columns.
      mode: "full", "same" or "valid", as of `numpy.convolve`.
    Returns:
      Array `[..., k, n]` of the dtype of `a`; k is m + n - 1, the larger of m and n, or what that exceeds the smaller by,
      plus 1.
    Raises:
      ShapeError: `a` has no elements along its last axis.
      TypeError: `a` is neither an array nor a number; `n` is not an integer.
      ValueError: `n` is not positive, or the mode is unknown.

    Derivative: linear.
    Source: meaning of `scipy.linalg.convolution_matrix`.

    >>> convolution_matrix(np.array([1, 2]), 3, "same")
    Array([[1, 0, 0],
           [2, 1, 0],
           [0, 2, 1]], dtype=int32)
    """
    column = _to_vectors("convolution_matrix", "a", a, 1)
    if not hasattr(n, "__index__"):
        raise TypeError(f"convolution_matrix: n must be an integer; got {n!r}")
    if n < 1:
        raise ValueError(f"convolution_matrix: n must be at least 1; got {n}")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f'convolution_matrix: mode must be "full", "same" or "valid"; got {mode!r}')
    m = typeof(column).shape[-1]
    zeros = [(0, 0)] * (len(typeof(column).shape) - 1)
    full = toeplitz(lnp.pad(column, [*zeros, (0, n - 1)]), lnp.pad(column[..., :1], [*zeros, (0, n - 1)]))
    cut = {"full": 0, "same": min(m, n) - 1, "valid": 2 * (min(m, n) - 1)}[mode]
    return full[..., cut // 2:m + n - 1 - (cut - cut // 2), :]


@public_api(entries=_ENTRIES)
def fiedler(a: ArrayLike) -> Array:
    """Matrices of the distances between the elements of a vector: `abs(a[i] - a[j])`.

    Args: {a}
    Returns:
      Array `[..., n, n]`, of the dtype of `a`, or the real one if `a` is complex.
    Raises:
      ShapeError: `a` has no axes.
      {TypeError}

    Source: meaning of `scipy.linalg.fiedler`.

    >>> fiedler(np.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    a = _to_vectors("fiedler", "a", a, 0)
    low, high = lnp.expand_dims(a, -1), lnp.expand_dims(a, -2)
    if typeof(a).dtype.kind == "u":  # a difference of unsigned numbers wraps around
        return lnp.maximum(low, high) - lnp.minimum(low, high)
    return lnp.abs(low - high)


@public_api(entries=_ENTRIES)
@ignore_strict_promotion
def fiedler_companion(a: ArrayLike) -> Array:
    """Companion matrices with five diagonals.

    Args:
      a: number array `[..., n]`: the coefficients of a polynomial from the highest power down, the first not 0.
    Returns:
      Float or complex array `[..., n - 1, n - 1]`; `[..., 0]` where there is one coefficient.
    Raises:
      ShapeError: `a` has no elements along its last axis.
      {TypeError}

    Source: Fiedler, "A note on companion matrices" (2003); meaning of `scipy.linalg.fiedler_companion`.

    >>> fiedler_companion(np.array([1., -16., 86.]))
    Array([[ 16., -86.],
           [  1.,   0.]], dtype=float32)
    """
    x = lnp.asarray(to_inexact("fiedler_companion", _to_vectors("fiedler_companion", "a", a, 1)))
    x = x / x[..., :1]
    n = typeof(x).shape[-1] - 1
    if n < 1:
        return x[..., 1:]
    if n == 1:
        return lnp.expand_dims(-x[..., 1:], -1)
    zero, one = lnp.zeros_like(x[..., 0]), lnp.ones_like(x[..., 0])
    rows = [[zero] * n for _ in range(n)]
    rows[0][0], rows[1][0] = -x[..., 1], one
    for k in range(2, n + 1):  # coefficient k is in the row of the nearest even place, which has a one two columns further
        i, j = (k - 2, k - 1) if k % 2 == 0 else (k - 1, k - 2)
        rows[i][j] = -x[..., k]
        if k % 2 == 0 and k < n:
            rows[k - 2][k] = one
        if k % 2 and k < n:
            rows[k][k - 2] = one
    return lnp.stack([lnp.stack(row, -1) for row in rows], -2)


@public_api()
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Matrices with the same number along each diagonal from the upper right to the lower left.

    Args:
      c: number array `[..., m]`: the first column.
      r: number array `[..., n]`: the last row, whose first element is not read; None for zeros. Its leading axes broadcast
        with those of `c`.
    Returns:
      Array `[..., m, n]` in the dtype both promote to.
    Raises:
      ShapeError: the leading axes do not broadcast; `c` or `r` has no elements along its last axis.
      TypeError: `c` or `r` is neither an array nor a number.

    Derivative: linear.
    Source: meaning of `scipy.linalg.hankel`, on stacks, which SciPy flattens.

    >>> hankel(np.array([1, 2, 3]), np.array([0, 5]))
    Array([[1, 2],
           [2, 3],
           [3, 5]], dtype=int32)
    """
    c = _to_vectors("hankel", "c", c, 1)
    r = lnp.zeros_like(c) if r is None else _to_vectors("hankel", "r", r, 1)
    lead = lnp.broadcast_shapes(typeof(c).shape[:-1], typeof(r).shape[:-1])
    m, n = typeof(c).shape[-1], typeof(r).shape[-1]
    line = lnp.concatenate([lnp.broadcast_to(c, (*lead, m)), lnp.broadcast_to(r, (*lead, n))[..., 1:]], -1)
    return lnp.flip(toeplitz(lnp.flip(line[..., :m], -1), line[..., m - 1:]), -2)


@public_api()
@ignore_strict_promotion
def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Leslie's matrices of population growth: fecundities in the first row, survival below the diagonal.

    Args:
      f: number array `[..., n]`: the fecundity of each age class.
      s: number array `[..., n - 1]`, n at least 2: the share of each class that reaches the next. The leading axes are those
        of `f`.
    Returns:
      Array `[..., n, n]` in the dtype both promote to.
    Raises:
      ShapeError: `s` is not one element shorter than `f`, or is empty.
      TypeError: `f` or `s` is neither an array nor a number.

    Derivative: linear.
    Source: Leslie, "On the use of matrices in certain population mathematics" (1945).

    >>> leslie(np.array([0.5, 2., 1.]), np.array([0.25, 0.75]))
    Array([[0.5 , 2.  , 1.  ],
           [0.25, 0.  , 0.  ],
           [0.  , 0.75, 0.  ]], dtype=float32)
    """
    f, s = _to_vectors("leslie", "f", f, 2), _to_vectors("leslie", "s", s, 1)
    n = typeof(f).shape[-1]
    if typeof(s).shape[-1] != n - 1:
        raise ShapeError(f"leslie: s must be one element shorter than f; got {typeof(f).str_long()} and {typeof(s).str_long()}")
    dtype = lnp.promote_types(typeof(f).dtype, typeof(s).dtype)
    lead = lnp.broadcast_shapes(typeof(f).shape[:-1], typeof(s).shape[:-1])
    below = lnp.expand_dims(lnp.broadcast_to(s, (*lead, n - 1)), -1) * lnp.eye(n - 1, n, dtype=dtype)
    return _set_row(lnp.broadcast_to(lnp.astype(f, dtype), (*lead, n)), below)
