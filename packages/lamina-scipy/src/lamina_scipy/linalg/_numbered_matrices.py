"""Matrices given by their size: of binomial coefficients, of the Fourier transform, Hadamard's, Helmert's, and the inverse
of Hilbert's."""
from __future__ import annotations

import math
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import public_api
from lamina_tracing import Array, DTypeLike, lax
from lamina_tracing.extend import resolve_requested_dtype

from .._util import check_count

__all__ = ["dft", "hadamard", "helmert", "invhilbert", "invpascal", "pascal"]

_I32 = np.dtype("int32")
_PASCAL = docstring_entries("""
    n: how many rows and columns.
    result: Float array `[n, n]`: whole numbers, rounded to the default float dtype once.
    TypeError: `n` is not an integer.
    ValueError: `n` is negative, or the kind is unknown.
    """)


def _to_float_array(rows: Any, n: int) -> Array:
    """Round a square matrix of Python ints or floats to the default float dtype once."""
    return lnp.asarray(np.array(rows, np.float64).reshape(n, n), dtype=float)


def _read_kind(call: str, kind: str | None) -> str:
    if kind not in (None, "symmetric", "lower", "upper"):
        raise ValueError(f'{call}: kind must be "symmetric", "lower", "upper" or None; got {kind!r}')
    return kind or "symmetric"


@public_api("n", "scale", "dtype")
def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """The matrix of the discrete Fourier transform: `dft(n) @ x` is `fft(x)`.

    Args:
      n: how many rows and columns.
      scale: None; "sqrtn" divides by the square root of n, "n" by n.
      dtype: a complex dtype; None for the default one.
    Returns:
      Complex array `[n, n]`: `exp(-2j pi i j / n)` in row i and column j.
    Raises:
      TypeError: `n` is not an integer.
      ValueError: `n` is negative, or `scale` is another one.

    Source: meaning of `scipy.linalg.dft`; the roots of unity are rounded once.

    >>> dft(2)
    Array([[ 1.+0.j,  1.+0.j],
           [ 1.+0.j, -1.+0.j]], dtype=complex64)
    """
    n = check_count("dft", "n", n)
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f'dft: scale must be None, "sqrtn" or "n"; got {scale!r}')
    k = np.arange(n)
    eighths = 8 * k / max(n, 1)  # cos and sin of arguments up to pi / 4, so that opposite roots are exact
    turn = np.round(eighths / 2)
    part = np.pi / 4 * (eighths - 2 * turn)
    roots = np.exp(-1j * part) * np.array([1, -1j, -1, 1j])[turn.astype(int) % 4] + 0.0
    roots = roots / {None: 1.0, "sqrtn": math.sqrt(max(n, 1)), "n": max(n, 1)}[scale]
    rows, columns = (lax.broadcasted_iota(_I32, (n, n), axis) for axis in (0, 1))
    return lnp.take(lnp.asarray(roots, dtype=complex if dtype is None else dtype), (rows * columns) % max(n, 1))


@public_api("n", "dtype")
def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Hadamard's matrix of Sylvester's construction: 1 and -1, with orthogonal rows.

    Args:
      n: how many rows and columns, a power of 2.
      dtype: a number dtype.
    Returns:
      Array `[n, n]`.
    Raises:
      TypeError: `n` is not an integer.
      ValueError: `n` is not a power of 2.

    Source: Sylvester (1867); meaning of `scipy.linalg.hadamard`.

    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    n = check_count("hadamard", "n", n, 1)
    if n & (n - 1):
        raise ValueError(f"hadamard: n must be a power of 2; got {n}")
    rows, columns = (lax.broadcasted_iota(_I32, (n, n), axis) for axis in (0, 1))
    odd = lax.bitwise_and(lax.population_count(lax.bitwise_and(rows, columns)), _I32.type(1))
    return lnp.astype(1 - 2 * odd, resolve_requested_dtype(dtype))


@public_api("n", "full")
def helmert(n: int, full: bool = False) -> Array:
    """Helmert's matrix, whose rows are orthonormal contrasts.

    Args:
      n: how many columns.
      full: whether to include the first row, whose elements are alike.
    Returns:
      Float array `[n - 1, n]`, or `[n, n]` if `full`.
    Raises:
      TypeError: `n` is not an integer.
      ValueError: `n` is not positive.

    Source: meaning of `scipy.linalg.helmert`.

    >>> helmert(2, full=True)
    Array([[ 0.70710677,  0.70710677],
           [ 0.70710677, -0.70710677]], dtype=float32)
    """
    n = check_count("helmert", "n", n, 1)
    k = np.arange(n, dtype=np.float64)[:, None]
    ones = np.tril(np.ones((n, n)), -1) - np.diag(k[:, 0])
    ones[0] = 1.0
    rows = ones / np.sqrt(np.where(k > 0, k * (k + 1), n))
    return lnp.asarray(rows if full else rows[1:], dtype=float)


@public_api("n")
def invhilbert(n: int) -> Array:
    """The inverse of the Hilbert matrix.

    Args:
      n: how many rows and columns.
    Returns:
      Float array `[n, n]`: whole numbers, rounded to the default float dtype once.
    Raises:
      TypeError: `n` is not an integer.
      ValueError: `n` is negative.

    Source: meaning of `scipy.linalg.invhilbert`.

    >>> invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    n = check_count("invhilbert", "n", n)
    return _to_float_array([[(-1) ** (i + j) * (i + j + 1) * math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1)
                             * math.comb(i + j, i) ** 2 for j in range(n)] for i in range(n)], n)


@public_api("n", "kind", entries=_PASCAL)
def pascal(n: int, kind: str | None = None) -> Array:
    """Pascal's matrix of binomial coefficients.

    Args:
      {n}
      kind: "symmetric" or None: `comb(i + j, i)`; "lower": `comb(i, j)`; "upper": its transpose.
    Returns: {result}
    Raises: {TypeError, ValueError}

    Source: meaning of `scipy.linalg.pascal`.

    >>> pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    n, kind = check_count("pascal", "n", n), _read_kind("pascal", kind)
    value = {"symmetric": lambda i, j: math.comb(i + j, i), "lower": math.comb, "upper": lambda i, j: math.comb(j, i)}[kind]
    return _to_float_array([[value(i, j) for j in range(n)] for i in range(n)], n)


@public_api("n", "kind", entries=_PASCAL)
def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of Pascal's matrix.

    Args:
      {n}
      kind: "symmetric" or None, "lower", "upper": the kind of the matrix whose inverse it is.
    Returns: {result}
    Raises: {TypeError, ValueError}

    Source: meaning of `scipy.linalg.invpascal`.

    >>> invpascal(3, "lower")
    Array([[ 1.,  0.,  0.],
           [-1.,  1.,  0.],
           [ 1., -2.,  1.]], dtype=float32)
    """
    n, kind = check_count("invpascal", "n", n), _read_kind("invpascal", kind)
    lower = [[(-1) ** (i + j) * math.comb(i, j) for j in range(n)] for i in range(n)]
    if kind == "lower":
        return _to_float_array(lower, n)
    if kind == "upper":
        return _to_float_array(list(map(list, zip(*lower))), n)
    columns = list(zip(*lower))
    return _to_float_array([[sum(a * b for a, b in zip(x, y)) for y in columns] for x in columns], n)
