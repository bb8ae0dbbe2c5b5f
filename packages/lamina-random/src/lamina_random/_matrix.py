"""Distributions of vectors and matrices that need factorizations."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import ShapeError, config, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, jit, lax, ShapeLike
from lamina_tracing.extend import typeof

from ._arguments import as_float, as_shape, as_size, fits, refuse_complex
from ._named import takes_names
from ._normal import normal_core

__all__ = ["multivariate_normal", "orthogonal"]

_part = config.threefry_partitionable


def _root(cov: Any, method: str) -> Any:
    """L with L L' = cov; NaN where there is none."""
    if method == "cholesky":
        return lax.factorizations.cholesky(cov)
    rows = typeof(cov).shape
    lead = tuple(range(len(rows) - 2))
    if method == "eigh":
        vectors, values = lax.factorizations.eigh(cov)
        negative = lax.lt(values, 0.0)
    else:  # of a semidefinite matrix both sides are the same vectors, but for those of 0
        vectors, values, right = lax.factorizations.svd(cov)
        along = lax.reduce_sum(lax.mul(vectors, lax.transpose(right, (*lead, len(rows) - 1, len(rows) - 2))), (len(rows) - 2,))
        negative = lax.lt(along, 0.5)
    size = lax.abs(values)
    least = lax.mul(lax.reduce_max(size, (len(rows) - 2,)), rows[-1] * float(dtypes.finfo(typeof(cov).dtype).eps))
    wrong = lax.bitwise_and(negative, lax.gt(size, lax.broadcast_in_dim(least, rows[:-1], lead)))
    values = lax.select(wrong, lax.full_like(values, np.nan), values)
    scale = lax.sqrt(lax.max(values, 0.0))
    return lax.mul(vectors, lax.broadcast_in_dim(scale, rows, (*lead, len(rows) - 1)))


def _multivariate(key: Any, mean: Any, cov: Any, shape: tuple[int, ...], dtype: np.dtype, method: str,
                  part: bool) -> Any:
    mean, cov = lax.convert_element_type(mean, dtype), lax.convert_element_type(cov, dtype)
    n = typeof(mean).shape[-1]
    full = (*shape, n)
    root = _root(cov, method)
    lead = typeof(root).shape[:-2]
    at = len(shape) - len(lead)
    z = normal_core("multivariate_normal", key, full, dtype, part)
    if lead:
        root = lax.broadcast_in_dim(root, (*shape, n, n), tuple(range(at, len(shape) + 2)))
        batch = tuple(range(len(shape)))
        turned = lax.dot_general(root, z, (((len(shape) + 1,), (len(shape),)), (batch, batch)), precision="highest")
    else:  # one matrix for all draws, which are the rows of a product
        turned = lax.dot_general(z, root, (((len(shape),), (1,)), ((), ())), precision="highest")
    own = typeof(mean).shape
    return lax.add(turned, lax.broadcast_in_dim(mean, full, tuple(range(len(full) - len(own), len(full)))))


_draw = jit(_multivariate, static_argnums=(3, 4, 5, 6), inline=True)


@takes_names
def multivariate_normal(key: ArrayLike, mean: ArrayLike, cov: ArrayLike, shape: ShapeLike | None = None,
                        dtype: DTypeLike | None = None, method: str = "cholesky") -> Array:
    """Normal vectors with this mean and covariance.

    Args:
      key: uint32[2], from `PRNGKey` or `split`.
      mean: array `[..., n]`.
      cov: symmetric array `[..., n, n]`; positive definite for "cholesky", semidefinite for the other methods. Of another
        one the numbers are NaN.
      shape: of the result without its last axis; default: what the leading axes of `mean` and `cov` broadcast to.
      dtype: a float dtype; default float32 (float64 in 64-bit mode).
      method: "cholesky", "eigh" or "svd": how the root of `cov` is found, the first fastest.
    Returns:
      Array `[*shape, n]`.
    Raises:
      ValueError: another `method`.
      ShapeError: `mean` and `cov` do not fit together or do not broadcast to `shape`; `key` is not uint32[2].
      DTypeError: `dtype` is no float dtype, or one that factorizations do not take.

    Source: `mean + L z` with `L L' = cov`, z normal.

    >>> from lamina_random import PRNGKey
    >>> multivariate_normal(PRNGKey(0), np.zeros(2, np.float32), np.eye(2, dtype=np.float32), (5,)).shape
    (5, 2)
    """
    m, c = typeof(mean).shape, typeof(cov).shape
    refuse_complex("multivariate_normal", typeof(mean), typeof(cov))
    if not isinstance(method, str) or method not in ("cholesky", "eigh", "svd"):
        raise ValueError(f"multivariate_normal: method must be 'cholesky', 'eigh' or 'svd'; got {method!r}")
    if not m or len(c) < 2 or c[-1] != c[-2] or c[-1] != m[-1]:
        raise ShapeError(f"multivariate_normal: expected mean [..., n] and cov [..., n, n]; got "
                         f"{typeof(mean).long()} and {typeof(cov).long()}")
    own = lax.broadcast_shapes(m[:-1], c[:-2])
    lead = own if shape is None else as_shape("multivariate_normal", shape)
    if not fits(own, lead):
        raise ShapeError(f"multivariate_normal: leading axes {own} of mean and cov do not broadcast to shape {lead}")
    if any(d == 1 and lead[len(lead) - len(own) + i] != 1 for own in (m[:-1], c[:-2]) for i, d in enumerate(own)):
        mean, cov = (_widened(x, lead, k) for x, k in ((mean, 1), (cov, 2)))
    return _draw(key, mean, cov, lead, as_float("multivariate_normal", dtype), method, _part.value)


def _widened(x: Any, lead: tuple[int, ...], last: int) -> Any:
    """Leading axes of length 1 repeated."""
    shape = typeof(x).shape
    inner = shape[len(shape) - last:]
    kept = [i for i, d in enumerate(shape[:-last]) if d != 1]
    at = len(lead) - (len(shape) - last)
    x = lax.reshape(x, (*[shape[i] for i in kept], *inner))
    return lax.broadcast_in_dim(x, (*lead, *inner), (*[at + i for i in kept], *range(len(lead), len(lead) + last)))


@takes_names
def orthogonal(key: ArrayLike, n: int, shape: ShapeLike = (), dtype: DTypeLike | None = None, m: int | None = None) -> Array:
    """Orthogonal matrices, every one equally likely (Haar measure); unitary ones for a complex dtype.

    Args:
      key: uint32[2], from `PRNGKey` or `split`.
      n: number of rows.
      shape: of the result without its last two axes.
      dtype: float32, float64, complex64 or complex128; default float32 (float64 in 64-bit mode).
      m: number of columns; default: `n`. Of rows and columns those that are fewer are orthonormal.
    Returns:
      Array `[*shape, n, m]`.
    Raises:
      ShapeError: `key` is not uint32[2], or `shape` holds a negative size.
      DTypeError: a dtype that factorizations do not take.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups" (2007).

    >>> from lamina_random import PRNGKey
    >>> orthogonal(PRNGKey(0), 3).shape
    (3, 3)
    """
    dtype = as_float("orthogonal", dtype, complex_too=True)
    rows = as_size("orthogonal", n, "n")
    columns = rows if m is None else as_size("orthogonal", m, "m")
    q = _orthogonal(key, (*as_shape("orthogonal", shape), max(rows, columns), min(rows, columns)), dtype, _part.value)
    if columns <= rows:
        return q
    last = typeof(q).ndim - 1
    return lax.transpose(q, (*range(last - 1), last, last - 1))


def _orthogonal_core(key: Any, full: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """Matrices of no more columns than rows: the Q of normal ones, its columns turned so that the diagonal of R is positive."""
    z = normal_core("orthogonal", key, full, dtype, part)
    q, r = lax.factorizations.qr(z, full_matrices=False)
    square = (*full[:-2], full[-1], full[-1])
    last = len(full) - 1
    eye = lax.eq(lax.broadcasted_iota("int32", square, last), lax.broadcasted_iota("int32", square, last - 1))
    diagonal = lax.reduce_sum(lax.select(eye, r, lax.full_like(r, 0)), (last - 1,))
    phase = lax.div(diagonal, _size(diagonal, dtype))
    return lax.mul(q, lax.broadcast_in_dim(phase, full, (*range(last - 1), last)))


def _size(x: Any, dtype: np.dtype) -> Any:
    size = lax.abs(x)
    return lax.complex(size, lax.full_like(size, 0)) if dtypes.is_complex(dtype) else size


_orthogonal = jit(_orthogonal_core, static_argnums=(1, 2, 3), inline=True)
