"""Distributions of vectors and matrices that need factorizations."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_autodiff import custom_jvp
from lamina_ir import ShapeError, config, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, jit, lax, ShapeLike
from lamina_tracing.extend import typeof

from ._args import as_float, as_shape, as_size, can_broadcast_to, refuse_complex
from ._named_axes import takes_names
from ._normal import normal_core

__all__ = ["multivariate_normal", "orthogonal"]

_part = config.threefry_partitionable
_MANY = 4096  # numbers from which products are written out


def _factor_covariance(cov: Any, method: str) -> Any:
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
    full = (*shape, typeof(mean).shape[-1])
    turned = _apply_root(_factor_covariance(cov, method), normal_core("multivariate_normal", key, full, dtype, part))
    return lax.add(turned, lax.broadcast_in_dim(mean, full, tuple(range(len(full) - typeof(mean).ndim, len(full)))))


def _apply_root(root: Any, z: Any) -> Any:
    """The root times each vector. Of a stack of roots, axes of length 1 count as none: one root turns many vectors then.

    The products are XLA's own, in JAX's order: written out they would be rounded otherwise."""
    *lead, n, _ = typeof(root).shape
    last, dtype = typeof(z).ndim - 1, typeof(z).dtype
    many = [i for i, d in enumerate(lead) if d != 1]
    root = lax.reshape(root, (*[lead[i] for i in many], n, n))
    batch, at = tuple(range(len(many))), tuple(last - len(lead) + i for i in many)
    if batch and len(batch) == last:
        return lax.dot_general(root, z, (((last + 1,), (last,)), (batch, at)), "highest", dtype)
    if not batch and n == 3 and dtype == np.float32 and typeof(z).size >= _MANY:
        return _apply_root_3(z, root)
    made = lax.dot_general(z, root, (((last,), (len(batch) + 1,)), (at, batch)), "highest", dtype)
    order = (*at, *(i for i in range(last + 1) if i not in at))
    return lax.transpose(made, tuple(order.index(i) for i in range(last + 1)))


@custom_jvp
def _apply_root_3(z: Any, root: Any) -> Any:
    """Return `_apply_root` for many vectors of length 3, rounded as XLA's product, in half its time.

    The loops of product and sum are joined. The comparison of each product keeps the compiler from adding it
    unrounded."""
    shape = typeof(z).shape
    last = len(shape) - 1
    total = None
    for k in range(3):
        one = lax.mul(lax.broadcast_in_dim(lax.index_in_dim(z, k, last, keepdims=False), shape, tuple(range(last))),
                      lax.broadcast_in_dim(lax.index_in_dim(root, k, 1, keepdims=False), shape, (last,)))
        one = lax.select(lax.eq(one, one), one, lax.full_like(one, np.nan))
        total = one if total is None else lax.add(total, one)
    return total


def _apply_root_3_jvp(primals: Any, tangents: Any) -> Any:
    numbers = (((typeof(primals[0]).ndim - 1,), (1,)), ((), ()))
    return _apply_root_3(*primals), lax.add(lax.dot_general(tangents[0], primals[1], numbers, "highest"),
                                            lax.dot_general(primals[0], tangents[1], numbers, "highest"))


_apply_root_3.defjvp(_apply_root_3_jvp)
_draw = jit(_multivariate, static_argnums=(3, 4, 5, 6), inline=True)


@takes_names
def multivariate_normal(key: ArrayLike, mean: ArrayLike, cov: ArrayLike, shape: ShapeLike | None = None,
                        dtype: DTypeLike | None = None, method: str = "cholesky") -> Array:
    """Normal vectors with this mean and covariance.

    Args:
      key: a key, from `random.key` or `split`.
      mean: array `[..., n]`.
      cov: symmetric array `[..., n, n]`; positive definite for "cholesky", semidefinite for the other methods. Of another
        one the numbers are NaN.
      shape: of the result without its last axis; default: what the leading axes of `mean` and `cov` broadcast to.
      dtype: a float dtype; default that of `mean` and `cov` together, at least float32.
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
                         f"{typeof(mean).str_long()} and {typeof(cov).str_long()}")
    own = lax.broadcast_shapes(m[:-1], c[:-2])
    lead = own if shape is None else as_shape("multivariate_normal", shape)
    if not can_broadcast_to(own, lead):
        raise ShapeError(f"multivariate_normal: leading axes {own} of mean and cov do not broadcast to shape {lead}")
    found = _common_dtype(mean, cov) if dtype is None else as_float("multivariate_normal", dtype)
    return _draw(key, mean, cov, lead, found, method, _part.value)


def _common_dtype(mean: Any, cov: Any) -> np.dtype:
    """The promoted dtype of `mean` and `cov`: a float of at least 32 bits."""
    pairs = [(t.dtype, t.weak_type) for t in (typeof(mean), typeof(cov))]
    found = dtypes.inexact_dtype_for(dtypes.promote(*pairs)[0])
    return found if found.itemsize >= 4 else np.dtype("float32")


@takes_names
def orthogonal(key: ArrayLike, n: int, shape: ShapeLike = (), dtype: DTypeLike | None = None, m: int | None = None) -> Array:
    """Orthogonal matrices, every one equally likely (Haar measure); unitary ones for a complex dtype.

    Args:
      key: a key, from `random.key` or `split`.
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
    phase = lax.div(diagonal, _normalize_sign(diagonal, dtype))
    return lax.mul(q, lax.broadcast_in_dim(phase, full, (*range(last - 1), last)))


def _normalize_sign(x: Any, dtype: np.dtype) -> Any:
    size = lax.abs(x)
    return lax.complex(size, lax.full_like(size, 0)) if dtypes.is_complex(dtype) else size


_orthogonal = jit(_orthogonal_core, static_argnums=(1, 2, 3), inline=True)
