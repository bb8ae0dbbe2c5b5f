"""Products with Q of a QR factorization, symmetric products, and Cholesky factors after a change of rank one."""
from __future__ import annotations

import numpy as np
from lamina_ir import DTypeError, ShapeError, dtypes, prims
from lamina_ir.typing import Value

from .._core.array import Array, ArrayLike
from .._diagnostics.argument_errors import rename_errors
from . import elementwise as ew
from . import shape as sh
from ._control_flow.loops import scan
from ._util.operands import bind, scalar, typeof
from .creation import broadcasted_iota
from .products import Precision, dot_general

__all__ = ["cholesky_update", "ormqr", "symmetric_product"]


def _multiply(a: Value, b: Value) -> Value:
    n = len(typeof(a).shape)
    batch = tuple(range(n - 2))
    return dot_general(a, b, (((n - 1,), (n - 2,)), (batch, batch)), precision=Precision.HIGHEST)


def _transpose(x: Value) -> Value:
    n = len(typeof(x).shape)
    return sh.transpose(x, (*range(n - 2), n - 1, n - 2))


@rename_errors
def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """Return the upper triangular factor of `R^T R + w w^T`.

    Args:
      r_matrix: real array `[..., n, n]`, R upper triangular.
      w_vector: real array `[..., n]`.
    Returns:
      Real array `[..., n, n]`, upper triangular.
    Raises:
      ShapeError: the shapes do not fit.
      DTypeError: the operands are not float.

    Derivative: of the rotations.
    Source: Gill, Golub, Murray and Saunders, "Methods for modifying matrix factorizations" (1974).

    >>> cholesky_update(np.float32([[3.]]), np.float32([4.]))
    Array([[5.]], dtype=float32)
    """
    r, w = typeof(r_matrix), typeof(w_vector)
    if len(r.shape) < 2 or r.shape[-1] != r.shape[-2] or w.shape != r.shape[:-1]:
        raise ShapeError(f"expected r_matrix [..., n, n] and w_vector [..., n]; got {r.str_long()} and {w.str_long()}")
    if not dtypes.is_float(r.dtype) or r.dtype != w.dtype:
        raise DTypeError(f"expected two arrays of one float dtype; got {r.str_long()} and {w.str_long()}")
    last = len(w.shape) - 1
    lead = tuple(range(last))
    order = broadcasted_iota("int32", w.shape, last)

    def pick(x: Value, k: Value) -> Value:
        here = ew.select(ew.eq(order, k), x, scalar(0, r.dtype))
        return sh.broadcast_in_dim(bind(prims.reduce_sum_p, here, axes=(last,)), w.shape, lead)

    def step(w: Value, row_and_place: tuple[Value, Value]) -> tuple[Value, Value]:
        row, k = row_and_place
        a, b = pick(row, k), pick(w, k)
        size = _hypot(a, b)
        cos, sin = ew.div(a, size), ew.div(b, size)
        left = ew.select(ew.gt(order, k), ew.sub(ew.mul(cos, w), ew.mul(sin, row)), scalar(0, r.dtype))
        return left, ew.select(ew.ge(order, k), ew.add(ew.mul(cos, row), ew.mul(sin, w)), scalar(0, r.dtype))

    rows = sh.transpose(r_matrix, (last, *lead, last + 1))
    done = scan(step, w_vector, (rows, broadcasted_iota("int32", r.shape[-1:], 0)))[1]
    return sh.transpose(done, (*range(1, last + 1), 0, last + 1))


def _hypot(a: Value, b: Value) -> Value:
    """sqrt(a**2 + b**2) without overflow; NaN if both are 0."""
    top = ew.stop_gradient(ew.max(ew.abs(a), ew.abs(b)))
    p, q = ew.div(a, top), ew.div(b, top)
    return ew.mul(top, ew.sqrt(ew.add(ew.mul(p, p), ew.mul(q, q))))


@rename_errors
def ormqr(a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False) -> Array:
    """Multiply matrices with the square Q that `geqrf` describes: `Q c`, `Q^H c`, `c Q` or `c Q^H`.

    Args:
      a: array `[..., m, n]`: the Householder vectors below the diagonal.
      taus: array `[..., k]`, k at most m and n: their factors.
      c: array `[..., m, p]`, or `[..., p, m]` if `left` is False.
      left: whether Q is to the left of c.
      transpose: whether Q is transposed and conjugated.
    Returns:
      Array of the shape of `c`.
    Raises:
      ShapeError: the shapes do not fit.

    Derivative: that of `householder_product`, and linear in c. Source: LAPACK `ormqr`.

    >>> ormqr(np.zeros((2, 1), np.float32), np.array([2.], np.float32), np.eye(2, dtype=np.float32))
    Array([[-1.,  0.],
           [ 0.,  1.]], dtype=float32)
    """
    t, s, u = typeof(a), typeof(taus), typeof(c)
    m, k = t.shape[-2] if len(t.shape) > 1 else -1, s.shape[-1] if s.shape else -1
    if not (len(t.shape) == len(u.shape) == len(s.shape) + 1 and 0 <= k <= min(t.shape[-2:])
            and u.shape[-2 if left else -1] == m and t.shape[:-2] == u.shape[:-2] == s.shape[:-1]):
        raise ShapeError("expected a [..., m, n], taus [..., k] with k <= min(m, n) and c "
                         f"{'[..., m, p]' if left else '[..., p, m]'}; got {t.str_long()}, {s.str_long()} and {u.str_long()}")
    lead = [(0, 0, 0)] * (len(t.shape) - 2)
    zero = scalar(0, t.dtype)
    vectors = sh.pad(sh.slice_in_dim(a, 0, k, axis=-1), zero, [*lead, (0, 0, 0), (0, m - k, 0)])
    q = bind(prims.householder_product_p, vectors, sh.pad(taus, zero, [*lead, (0, m - k, 0)]))
    if transpose:
        q = _transpose(ew.conj(q) if dtypes.is_complex(t.dtype) else q)
    return _multiply(q, c) if left else _multiply(c, q)


@rename_errors
def symmetric_product(a_matrix: ArrayLike, c_matrix: ArrayLike, *, alpha: float = 1.0, beta: float = 0.0,
                      symmetrize_output: bool = False) -> Array:
    """Compute `alpha A A^T + beta C`.

    Args:
      a_matrix: float or complex array `[..., m, n]`.
      c_matrix: array `[..., m, m]`, symmetric.
      alpha, beta: numbers.
      symmetrize_output: copy the lower triangle of the result to the upper one.
    Returns:
      Array `[..., m, m]`.
    Raises:
      ShapeError: the shapes do not fit.

    Source: BLAS `syrk`.

    >>> symmetric_product(np.float32([[1.], [2.]]), np.eye(2, dtype=np.float32), beta=3.)
    Array([[4., 2.],
           [2., 7.]], dtype=float32)
    """
    a, c = typeof(a_matrix), typeof(c_matrix)
    if len(a.shape) < 2 or c.shape != (*a.shape[:-1], a.shape[-2]):
        raise ShapeError(f"expected a_matrix [..., m, n] and c_matrix [..., m, m]; got {a.str_long()} and {c.str_long()}")
    product = ew.mul(scalar(alpha, a.dtype), _multiply(a_matrix, _transpose(a_matrix)))
    out = ew.add(product, ew.mul(scalar(beta, a.dtype), c_matrix))
    if not symmetrize_output:
        return out
    n = len(c.shape)
    rows, columns = (broadcasted_iota(np.dtype("int32"), c.shape, axis) for axis in (n - 2, n - 1))
    return ew.select(ew.ge(rows, columns), out, _transpose(out))
