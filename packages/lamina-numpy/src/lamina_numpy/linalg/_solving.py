"""Linear systems, ranks and condition numbers: the third part of `numpy.linalg`.

Matrices are in the last two axes. A singular matrix gives inf or NaN, where NumPy raises.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_autodiff import custom_linear_solve
from lamina_ir import dtypes, prims
from lamina_tracing import Array, ArrayLike, AxisLike, lax
from lamina_tracing.extend import bind, check_axes, typeof
from lamina_tracing.lax import factorizations as _linalg

from .._products import products
from .._elementwise import ufuncs
from .._reductions import reductions
from .._shape import layout
from .._core.promotion import aval, broadcast, broadcast_shapes_of, cast, literal, to_inexact
from .._core.public_api import public_api
from .._core.select import choose_by
from .._creation.creation import eye
from .._indexing.take import take_along_axis
from ._decompositions import runs_on_numpy, svd, to_matrices

__all__ = ["inv", "matrix_rank", "solve", "tensorinv", "tensorsolve"]

_I32 = np.dtype("int32")
_matmul = products.matmul


# --- square systems -------------------------------------------------------------------------------------------------


def _substitute(factors: Any, b: Any, lower: bool, back: bool = False) -> Any:
    return _linalg.triangular_solve(factors, b, left_side=True, lower=lower, unit_diagonal=lower, transpose_a=back)


def _permute_rows(x: Any, order: Any) -> Any:
    return take_along_axis(x, layout.expand_dims(order, -1), -2)


def solve_stacks(a: Any, b: Any) -> Any:
    """a^-1 b for stacks of matrices `[..., n, n]`, `[..., n, k]`.

    With a compiler one LU decomposition serves derivatives too. NumPy does not return the factors that it computes."""
    s, t = typeof(a).shape, typeof(b).shape
    batch = broadcast_shapes_of("solve", (s[:-2], t[:-2]))
    if runs_on_numpy():
        return bind(prims.solve_p, broadcast(a, s, batch + s[-2:]), broadcast(b, t, batch + t[-2:]))
    factors, _, order = _linalg.lu(lax.stop_gradient(a))
    factors = broadcast(factors, s, batch + s[-2:])
    order = broadcast(order, s[:-1], batch + s[-1:])
    places = lax.broadcasted_iota(_I32, typeof(order).shape, len(batch))

    def solve_forward(_: Any, y: Any) -> Any:
        return _substitute(factors, _substitute(factors, _permute_rows(y, order), True), False)

    def solve_transposed(_: Any, y: Any) -> Any:
        y = _substitute(factors, _substitute(factors, y, False, True), True, True)
        return _permute_rows(y, lax.sort_key_val(order, places)[1])

    return custom_linear_solve(lambda x: _matmul(a, x), broadcast(b, t, batch + t[-2:]), solve_forward,
                               solve_transposed)


def promote_pair(call: str, a: Any, b: Any) -> tuple[Any, Any]:
    d, _ = dtypes.promote(*[(aval(call, x, i).dtype, False) for i, x in enumerate((a, b))])
    d = dtypes.inexact_dtype_for(d)
    d = np.dtype("float32") if d.itemsize < 4 else d
    return cast(a, d), cast(b, d)


@public_api()
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The solution x of `a x = b`.

    Args:
      a: number array `[..., n, n]`.
      b: number array `[n]`, or `[..., n, k]`; its leading axes broadcast with those of `a`.
    Returns:
      Array `[..., n]` or `[..., n, k]`, in the dtype that both promote to; half precision is computed in float32,
      integers and booleans in float. inf or NaN where `a` is singular, where NumPy raises.
    Raises:
      ValueError: `a` is not made of square matrices, or their size is not that of `b`.
      ShapeError: the leading axes do not broadcast.
      TypeError: `a` or `b` is neither an array nor a number.

    Derivative: solves with the same decomposition.
    Source: meaning of `numpy.linalg.solve`; by one LU decomposition.

    >>> solve(np.array([[2., 0.], [1., 4.]]), np.array([2., 9.]))
    Array([1., 2.], dtype=float32)
    """
    a, b = promote_pair("solve", a, b)
    a = to_matrices("solve", a, square=True)
    s, t = typeof(a).shape, typeof(b).shape
    vector = len(t) == 1
    if not t or s[-1] != t[0 if vector else -2]:
        raise ValueError(f"solve: expected a [..., n, n] and b [n] or [..., n, k]; got {typeof(a).str_long()} and "
                         f"{typeof(b).str_long()}")
    if vector:
        out = solve_stacks(a, lax.expand_dims(b, (1,)))
        return lax.squeeze(out, (len(typeof(out).shape) - 1,))
    return solve_stacks(a, b)


@public_api()
def inv(a: ArrayLike) -> Array:
    """The inverse of square matrices.

    Args:
      a: number array `[..., n, n]`.
    Returns:
      Array `[..., n, n]`, in the inverse units of `a`; half precision is computed in float32, integers and booleans
      in float. inf or NaN where a matrix is singular, where NumPy raises.
    Raises:
      ValueError: `a` has fewer than two axes, or its last two differ in length.
      TypeError: `a` is neither an array nor a number.

    Derivative: solves with the same decomposition.
    Source: meaning of `numpy.linalg.inv`; by one LU decomposition.

    >>> inv(np.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    a = to_matrices("inv", a, square=True)
    t = typeof(a)
    return solve_stacks(a, eye(t.shape[-1], dtype=t.dtype))


@public_api("ind")
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of an array seen as a square matrix from its last axes to its first.

    Args:
      a: number array `[*s, *t]` with as many elements in `s` as in `t`.
      ind: length of `s`, at least 1.
    Returns:
      Array `[*t, *s]`: `tensordot(tensorinv(a, ind), a, ind)` is the identity. Half precision is computed in
      float32, integers and booleans in float; inf or NaN where there is no inverse.
    Raises:
      ValueError: `ind` is below 1, or the first `ind` axes do not hold as many elements as the others.
      TypeError: `a` is neither an array nor a number.

    Source: meaning of `numpy.linalg.tensorinv`.

    >>> tensorinv(np.ones((4, 2, 2)), ind=1).shape
    (2, 2, 4)
    """
    a = to_inexact("tensorinv", a)
    shape = typeof(a).shape
    n, m = int(np.prod(shape[:ind], dtype=int)), int(np.prod(shape[ind:], dtype=int))
    if not 0 < ind or n != m:
        raise ValueError(f"tensorinv: the first {ind} axes must hold as many elements as the others; got "
                         f"{typeof(a).str_long()}")
    return layout.reshape(inv(layout.reshape(a, (n, m))), shape[ind:] + shape[:ind])


@public_api("axes")
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: AxisLike = None) -> Array:
    """The x with `tensordot(a, x, x.ndim) = b`.

    Args:
      a: number array `[*s, *t]` with as many elements in `s` as in `t`, after `axes` are moved.
      b: number array `[*s]`.
      axes: a tuple of axes of `a` to move to its end first, negative ones counting from there; None for none.
    Returns:
      Array `[*t]`, in the dtype that both promote to; half precision is computed in float32, integers and booleans
      in float. inf or NaN where there is no one solution.
    Raises:
      ValueError: `a` does not begin with the axes of `b`, or the others do not hold as many elements.
      ShapeError: `axes` names an axis that `a` does not have, or one twice.
      TypeError: `a` or `b` is neither an array nor a number.

    Source: meaning of `numpy.linalg.tensorsolve`.

    >>> tensorsolve(2 * np.eye(4).reshape(2, 2, 4), np.ones((2, 2)))
    Array([0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    a, b = promote_pair("tensorsolve", a, b)
    n = len(typeof(a).shape)
    if axes is not None:
        moved = check_axes("tensorsolve", axes, n, "axes")
        a = layout.transpose(a, [*(x for x in range(n) if x not in moved), *moved])
    s, t = typeof(a).shape, typeof(b).shape
    rest = s[len(t):]
    if s[:len(t)] != t or np.prod(rest, dtype=int) != np.prod(t, dtype=int):
        raise ValueError(f"tensorsolve: a must have the axes of b and as many elements more; got {typeof(a).str_long()} and "
                         f"{typeof(b).str_long()}")
    size = int(np.prod(t, dtype=int))
    return layout.reshape(solve(layout.reshape(a, (size, size)), layout.reshape(b, (size,))), rest)


# --- any matrix, by its singular values -----------------------------------------------------------------------------


def align_limit(call: str, limit: Any, d: np.dtype) -> Any:
    """Convert a limit, one for all matrices or one per matrix, to the dtype of the singular values; add an axis for these."""
    limit = cast(to_inexact(call, limit), d)
    return layout.expand_dims(limit, -1) if typeof(limit).shape else limit


def scale_by_largest(s: Any, rtol: Any) -> Any:
    """`rtol` times the largest singular value of each matrix."""
    return ufuncs.multiply(rtol, reductions.max(s, -1, None, True, 0))


def compute_threshold(call: str, s: Any, shape: tuple[int, ...], rtol: Any) -> Any:
    """The singular values below which a matrix counts as singular, one per matrix, with an axis of length 1."""
    d = typeof(s).dtype
    if rtol is None:
        return scale_by_largest(s, literal(float(np.finfo(d).eps) * max(shape[-2:], default=0), d))
    return scale_by_largest(s, align_limit(call, rtol, d))


def is_above(call: str, s: Any, limit: Any) -> Any:
    shape = broadcast_shapes_of(call, (typeof(s).shape, typeof(limit).shape))
    return lax.gt(broadcast(s, typeof(s).shape, shape), broadcast(limit, typeof(limit).shape, shape))


def invert_values(s: Any, good: Any) -> Any:
    """1 / s where `good`, else 0; safe to differentiate."""
    one, zero = literal(1, typeof(s).dtype), literal(0, typeof(s).dtype)
    return choose_by(good, lax.div(one, choose_by(good, s, one)), zero)


@public_api("hermitian")
def matrix_rank(M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False,
                tol: ArrayLike | None = None) -> Array:
    """The rank of matrices: how many singular values are above a limit.

    Args:
      M: number array `[..., m, n]`; a vector or number has rank 1, or 0 if it is all zeros.
      rtol: the limit over the largest singular value, one number or one per matrix; None for max(m, n) times the
        precision of the dtype.
      hermitian: the matrices are Hermitian: their eigenvalues are computed instead.
      tol: the limit itself, in the units of `M`, one number or one per matrix; None goes by `rtol`, which it
        overrides.
    Returns:
      Array `[...]` of the default integer.
    Raises:
      ValueError: the matrices are not square although `hermitian`.
      ShapeError: `rtol` or `tol` does not broadcast to the matrices.
      TypeError: `M` is neither an array nor a number.

    Source: meaning of `numpy.linalg.matrix_rank`.

    >>> matrix_rank(np.ones((2, 2))), matrix_rank(np.diag(np.array([3., 1.])), tol=2.)
    (Array(1, dtype=int32), Array(1, dtype=int32))
    """
    m = to_inexact("matrix_rank", M)
    t = typeof(m)
    if len(t.shape) < 2:
        return cast(reductions.any(lax.ne(m, literal(0, t.dtype))), dtypes.canonical_int())
    s = svd(m, False, False, hermitian)
    if tol is not None:
        limit = align_limit("matrix_rank", tol, typeof(s).dtype)
    else:
        limit = compute_threshold("matrix_rank", s, t.shape, rtol)
    return reductions.sum(choose_by(is_above("matrix_rank", s, limit), 1, 0), -1)
