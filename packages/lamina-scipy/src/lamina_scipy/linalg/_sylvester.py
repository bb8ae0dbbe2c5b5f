"""Sylvester's equation, by Schur forms or by eigenvectors."""
from __future__ import annotations

import functools
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import custom_jvp
from lamina_ir import ShapeError, dtypes
from lamina_numpy.extend import ignore_strict_promotion, public_api
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof
from lamina_tracing.lax import factorizations

from ._decompositions import schur
from ._util import adjoint, diagonal, mm, promote_all, to_matrices

__all__ = ["solve_sylvester"]


def _sum_eigenvalues(a: Any, b: Any) -> Any:
    return lnp.expand_dims(a, -1) + lnp.expand_dims(b, -2)


def _solve_by_schur(a: Any, b: Any, c: Any, tol: float) -> Any:
    """With `a = U R U^H` and `b = V S V^H`, R and S upper triangular: the columns of Y in `R Y + Y S = U^H c V` one after
    the other."""
    (r, u), (s, v) = (schur(x, "complex") for x in (a, b))
    f = mm(mm(adjoint(u), c), v)
    n, dtype = typeof(s).shape[-1], typeof(f).dtype
    eye = lnp.eye(typeof(r).shape[-1], dtype=dtype)
    lost = lnp.any(lnp.abs(_sum_eigenvalues(diagonal(r), diagonal(s))) <= tol, (-2, -1), keepdims=True)

    def step(y: Any, k: Any) -> tuple[Any, None]:
        column = lax.dynamic_index_in_dim(s, k, -1)  # columns of Y from k on are still 0
        shift = lax.dynamic_index_in_dim(column, k, -2)
        rest = lax.dynamic_index_in_dim(f, k, -1) - mm(y, column)
        found = factorizations.triangular_solve(r + shift * eye, rest, left_side=True, lower=False)
        return lnp.where(lnp.arange(n) == k, found, y), None

    y = lax.scan(step, lnp.zeros_like(f), lnp.arange(n))[0]
    return lnp.where(lost, np.nan, mm(mm(u, y), adjoint(v)))


def _solve_by_eigenvectors(a: Any, b: Any, c: Any, tol: float) -> Any:
    (w, p), (z, q) = (factorizations.eig(x, compute_left_eigenvectors=False) for x in (a, b))
    sums = _sum_eigenvalues(w, z)
    lost = lnp.any(lnp.abs(sums) <= tol, (-2, -1), keepdims=True)
    inner = lnp.linalg.solve(p, mm(lnp.astype(c, typeof(p).dtype), q)) / lnp.where(lost, 1.0, sums)
    x = lnp.matrix_transpose(lnp.linalg.solve(lnp.matrix_transpose(q), lnp.matrix_transpose(mm(p, inner))))
    return lnp.where(lost, np.nan, x)


@functools.partial(custom_jvp, nondiff_argnums=(3, 4))
def _solve(a: Any, b: Any, c: Any, method: str, tol: float) -> Any:
    x = (_solve_by_schur if method == "schur" else _solve_by_eigenvectors)(a, b, c, tol)
    return x if dtypes.is_complex(typeof(c).dtype) else lax.real(x)


@_solve.defjvp
def _solve_jvp(method: str, tol: float, primals: Any, tangents: Any) -> Any:
    """`a dx + dx b = dc - da x - x db`."""
    a, b, c = primals
    da, db, dc = tangents
    x = _solve(a, b, c, method, tol)
    return x, _solve(a, b, dc - mm(da, x) - mm(x, db), method, tol)


@public_api("method", "tol")
@ignore_strict_promotion
def solve_sylvester(A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8) -> Array:
    """Solve `A X + X B = C` for X.

    Args:
      A: number array `[..., m, m]`.
      B: number array `[..., n, n]`.
      C: number array `[..., m, n]`. The leading axes of all three broadcast.
      method: "schur", or "eigen", which is faster and loses digits if the eigenvectors are close to dependent.
      tol: if the sum of an eigenvalue of `A` and one of `B` is at most that, X is NaN.
    Returns:
      Float or complex array `[..., m, n]`; half precision is computed in float32.
    Raises:
      ShapeError: `A` or `B` is not square, `C` does not fit them, or the leading axes do not broadcast.
      TypeError: an argument is neither an array nor a number.
      ValueError: the method is unknown.

    Derivative: that of the equation.
    Source: Bartels and Stewart, "Solution of the matrix equation AX + XB = C" (1972); meaning of
      `scipy.linalg.solve_sylvester`, on stacks.

    >>> solve_sylvester(np.array([[2.]]), np.array([[3.]]), np.array([[10.]]))
    Array([[2.]], dtype=float32)
    """
    if method not in ("schur", "eigen"):
        raise ValueError(f'solve_sylvester: method must be "schur" or "eigen"; got {method!r}')
    a, b, c = promote_all("solve_sylvester", A, B, C)
    a, b = to_matrices("solve_sylvester", a, True, "A"), to_matrices("solve_sylvester", b, True, "B")
    c = to_matrices("solve_sylvester", c, False, "C")
    s, t, w = (typeof(x).shape for x in (a, b, c))
    if w[-2:] != (s[-1], t[-1]):
        raise ShapeError(f"solve_sylvester: C must have {s[-1]} rows and {t[-1]} columns, as A and B have; got "
                         f"{typeof(c).str_long()}")
    lead = lnp.broadcast_shapes(s[:-2], t[:-2], w[:-2])
    a, b, c = (lnp.broadcast_to(x, lead + typeof(x).shape[-2:]) for x in (a, b, c))
    return _solve(a, b, c, method, float(tol))
