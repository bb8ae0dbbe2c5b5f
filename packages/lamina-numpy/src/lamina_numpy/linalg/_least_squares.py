"""Least squares by singular values: `numpy.linalg.lstsq`, with the derivative of the pseudo-inverse."""
from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from lamina_autodiff import custom_jvp, jvp
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._products import products
from .._elementwise import ufuncs
from .._reductions import reductions
from .._shape import layout
from .._core.promotion import cast, literal, to_inexact
from .._core.public_api import jitted_core
from .._core.select import choose_by
from ._decompositions import adjoint, svd, to_matrices
from ._pseudoinverse import pinv_of_rank
from ._solving import invert_values, is_above, promote_pair, scale_by_largest

__all__ = ["lstsq"]

_matmul = products.matmul


@partial(custom_jvp, nondiff_argnums=(3,))
def _solve_by_svd(a: Any, b: Any, rtol: Any, cut: bool) -> tuple[Any, Any]:
    """The shortest least-squares solution of `a x = b`, and the singular values of `a`."""
    u, s, vh = svd(a, False)
    inverse = invert_values(s, is_above("lstsq", s, scale_by_largest(s, rtol)))
    return _matmul(adjoint(vh), ufuncs.multiply(layout.expand_dims(inverse, -1), _matmul(adjoint(u), b))), s


@_solve_by_svd.defjvp
def _solve_by_svd_jvp(cut: bool, primals: Any, tangents: Any) -> Any:
    a, b, rtol = primals

    # The derivatives of singular vectors do not exist where singular values are equal; that of the pseudo-inverse does.
    def solve(a: Any, b: Any) -> tuple[Any, Any]:
        return _matmul(pinv_of_rank(a, rtol, False, cut), b), svd(a, False, False)

    return _solve_by_svd(a, b, rtol, cut), jvp(solve, (a, b), tuple(tangents[:2]))[1]


def lstsq(a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None = None, *,
          numpy_resid: bool = False) -> tuple[Array, Array, Array, Array]:
    """The least-squares solution of `a x = b`, the shortest if there are several, by singular values.

    Args:
      a: number array `[m, n]`.
      b: number array `[m]` or `[m, k]`.
      rcond: singular values up to this times the largest count as zero; None for max(m, n) times the precision of
        the dtype, a negative number for the precision itself.
      numpy_resid: give residuals of length 0 where `a` has not full rank or m <= n, as NumPy does; needs known
        arrays.
    Returns:
      `(x, residuals, rank, s)`: x `[n]` or `[n, k]`, sums of squared residuals `[k]` (`[1]` for a vector `b`), in
      squared units of `b`, the rank, an integer, and the singular values of `a` `[min(m, n)]`. Dtype that both
      promote to; half precision is computed in float32, integers and booleans in float.
    Raises:
      ValueError: `a` and `b` have other shapes.
      TypeError: `a` or `b` is neither an array nor a number.
      ConcretizationError: `numpy_resid` on traced arrays.

    Derivative: that of `pinv(a, rcond) b`; holds where the rank does not change.
    Source: meaning of `numpy.linalg.lstsq`.

    >>> lstsq(np.array([[1., 0.], [1., 1.], [1., 2.]]), np.array([1., 3., 5.]))[0].round(3)
    Array([1., 2.], dtype=float32)
    """
    x, residuals, rank, s = _lstsq(a, b, rcond)
    if numpy_resid:
        m, n = np.shape(a)
        if m <= n or int(rank) < n:
            residuals = residuals[:0]
    return x, residuals, rank, s


@jitted_core(name="lstsq")
def _lstsq(a: Any, b: Any, rcond: Any) -> Any:
    a, b = promote_pair("lstsq", a, b)
    a = to_matrices("lstsq", a)
    s_a, s_b = typeof(a).shape, typeof(b).shape
    if len(s_a) != 2 or len(s_b) not in (1, 2) or s_a[0] != s_b[0]:
        raise ValueError(f"lstsq: expected a [m, n] and b [m] or [m, k]; got {typeof(a).str_long()} and {typeof(b).str_long()}")
    vector = len(s_b) == 1
    b = layout.expand_dims(b, -1) if vector else b
    d, cut = dtypes.real_dtype(typeof(a).dtype), rcond is not None
    if rcond is None:
        rcond = literal(float(np.finfo(d).eps) * max(s_a), d)
    else:
        rcond = cast(to_inexact("lstsq", rcond), d)
        rcond = choose_by(lax.lt(rcond, literal(0, d)), literal(float(np.finfo(d).eps), d), rcond)
    x, s = _solve_by_svd(a, b, rcond, cut)
    rank = reductions.sum(choose_by(is_above("lstsq", s, scale_by_largest(s, rcond)), 1, 0))
    left = ufuncs.subtract(b, _matmul(a, x))
    residuals = reductions.sum(ufuncs.square(ufuncs.abs(left)), 0)
    return layout.squeeze(x, -1) if vector else x, residuals, rank, s
