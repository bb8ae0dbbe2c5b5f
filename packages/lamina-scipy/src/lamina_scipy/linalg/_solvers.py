"""Systems of equations, inverses and determinants, from factors or from the matrices themselves.

What LAPACK reports as singular is inf or NaN here: no number is looked at while a program is written.
"""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import custom_linear_solve
from lamina_ir import ShapeError
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import public_api
from lamina_tracing import Array, ArrayLike, jit, lax
from lamina_tracing.extend import typeof
from lamina_tracing.lax import factorizations

from ._util import promote_all, to_matrices, triangle

__all__ = ["cho_solve", "det", "inv", "lu_solve", "solve", "solve_triangular"]

_I32 = np.dtype("int32")
_TRANSPOSED = {0: (False, False), "N": (False, False), 1: (True, False), "T": (True, False), 2: (True, True), "C": (True, True)}


def _promote_pair(call: str, a: Any, b: Any, argument: str = "a") -> tuple[Any, Any, bool]:
    """Matrices and right sides `[..., n, k]` in one dtype and with the same leading axes, and whether `b` was vectors."""
    a, b = promote_all(call, a, b)
    a = to_matrices(call, a, True, argument)
    s, t = typeof(a).shape, typeof(b).shape
    vector = len(t) == 1 or len(t) == len(s) - 1 and t == s[:-1]
    if not t or t[-1 if vector else -2] != s[-1]:
        raise ShapeError(f"{call}: expected {argument} [..., n, n] and b [n], [..., n] with the leading axes of {argument}, or "
                         f"[..., n, k]; got {typeof(a).str_long()} and {typeof(b).str_long()}")
    if vector:
        b = lnp.expand_dims(b, -1)
        t = (*t, 1)
    try:
        lead = lnp.broadcast_shapes(s[:-2], t[:-2])
    except ValueError as e:
        raise ShapeError(f"{call}: the leading axes of {argument} and b do not broadcast; got {typeof(a).str_long()} and "
                         f"{typeof(b).str_long()}") from e
    return lnp.broadcast_to(a, lead + s[-2:]), lnp.broadcast_to(b, lead + t[-2:]), vector


def _restore_vector(x: Any, vector: bool) -> Any:
    return lnp.squeeze(x, -1) if vector else x


def _solve_triangular(a: Any, b: Any, lower: bool, back: bool = False, unit: bool = False) -> Any:
    return factorizations.triangular_solve(a, b, left_side=True, lower=lower, transpose_a=back, conjugate_a=back,
                                           unit_diagonal=unit)


_SQUARE = docstring_entries("""
    a: number array `[..., n, n]`.
    overwrite_a, check_finite: no effect; accepted for compatibility with SciPy.
    ShapeError: `a` has fewer than two axes, or its last two differ in length.
    TypeError: `a` is neither an array nor a number.
    """)


@public_api("overwrite_a", "check_finite", entries=_SQUARE)
def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinants of square matrices.

    Args: {a, overwrite_a, check_finite}
    Returns:
      Float or complex array `[...]`; half precision is computed in float32.
    Raises: {ShapeError, TypeError}

    Source: meaning of `scipy.linalg.det`, on stacks; `lamina_numpy.linalg.det` computes it.

    >>> det(np.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    return lnp.linalg.det(to_matrices("det", a, True))


@public_api("overwrite_a", "check_finite", entries=_SQUARE)
def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverses of square matrices.

    Args: {a, overwrite_a, check_finite}
    Returns:
      Array `[..., n, n]`; inf or NaN where a matrix is singular, where SciPy raises.
    Raises: {ShapeError, TypeError}

    Source: meaning of `scipy.linalg.inv`, on stacks; `lamina_numpy.linalg.inv` computes it.

    >>> inv(np.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return lnp.linalg.inv(to_matrices("inv", a, True))


@public_api("lower", "overwrite_a", "overwrite_b", "debug", "check_finite", "assume_a")
def solve(a: ArrayLike, b: ArrayLike, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
          debug: bool = False, check_finite: bool = True, assume_a: str = "gen") -> Array:
    """The solution x of `a x = b`.

    Args:
      a: number array `[..., n, n]`.
      b: number array `[n]`, `[..., n]` with exactly the leading axes of `a`, or `[..., n, k]`.
      lower: with "pos", read the lower triangle of `a` alone; else the upper.
      overwrite_a, overwrite_b, debug, check_finite: of no effect; accepted for SciPy's sake.
      assume_a: "gen"; "sym" and "her", which are solved as "gen"; or "pos": Hermitian positive definite.
    Returns:
      Array of the shape of `b`, its leading axes broadcast with those of `a`. inf or NaN where `a` is singular, NaN
      where it is not positive definite although said to be, where SciPy raises.
    Raises:
      ValueError: `assume_a` is another word.
      ShapeError: `a` is not made of square matrices, or `b` does not fit them.
      TypeError: `a` or `b` is neither an array nor a number.

    Derivative: solves with the same factors.
    Source: meaning of `scipy.linalg.solve`, on stacks; by an LU or Cholesky decomposition.

    >>> solve(np.array([[4., 2.], [2., 5.]]), np.array([8., 12.]), assume_a="pos")
    Array([1., 2.], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"solve: assume_a must be 'gen', 'sym', 'her' or 'pos'; got {assume_a!r}")
    a, b, vector = _promote_pair("solve", a, b)
    if assume_a != "pos":
        return _restore_vector(lnp.linalg.solve(a, b), vector)
    a = triangle(a, lower)
    factor = factorizations.cholesky(lax.stop_gradient(a), symmetrize_input=False)

    def solve_factored(_: Any, y: Any) -> Any:
        return _solve_triangular(factor, _solve_triangular(factor, y, True), True, back=True)

    def solve_transposed(_: Any, y: Any) -> Any:  # the transpose of a Hermitian matrix is its conjugate
        return lnp.conj(solve_factored(None, lnp.conj(y)))

    return _restore_vector(custom_linear_solve(lambda x: lnp.matmul(a, x), b, solve_factored, solve_transposed), vector)


@public_api("trans", "lower", "unit_diagonal", "overwrite_b", "debug", "check_finite")
def solve_triangular(a: ArrayLike, b: ArrayLike, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False,
                     overwrite_b: bool = False, debug: Any = None, check_finite: bool = True) -> Array:
    """The solution x of `a x = b` for triangular matrices.

    Args:
      a: number array `[..., n, n]`; one triangle is read.
      b: number array `[n]`, `[..., n]` with exactly the leading axes of `a`, or `[..., n, k]`.
      trans: 0 or "N" for `a x = b`, 1 or "T" for `a^T x = b`, 2 or "C" for `a^H x = b`.
      lower: which triangle of `a` is read.
      unit_diagonal: assume a diagonal of ones; its elements are not read.
      overwrite_b, debug, check_finite: of no effect; accepted for SciPy's sake.
    Returns:
      Array of the shape of `b`, its leading axes broadcast with those of `a`; inf or NaN where a diagonal has a 0.
    Raises:
      ValueError: `trans` is another word or number.
      ShapeError: `a` is not made of square matrices, or `b` does not fit them.
      TypeError: `a` or `b` is neither an array nor a number.

    Derivative: linear in `b`; solves with the same matrix.
    Source: meaning of `scipy.linalg.solve_triangular`, on stacks; BLAS `trsm`.

    >>> solve_triangular(np.array([[2., 0.], [1., 4.]]), np.array([2., 9.]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    if trans not in _TRANSPOSED:
        raise ValueError(f"solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C'; got {trans!r}")
    turned, conjugated = _TRANSPOSED[trans]
    a, b, vector = _promote_pair("solve_triangular", a, b)
    return _restore_vector(factorizations.triangular_solve(a, b, left_side=True, lower=lower, transpose_a=turned,
                                                           conjugate_a=conjugated,
                                                           unit_diagonal=unit_diagonal), vector)


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True) -> Array:
    """The solution x of `a x = b` from what `cho_factor(a)` gives.

    Args:
      c_and_lower: the factor `[..., n, n]`, of which one triangle is read, and whether that is the lower one.
      b: number array `[n]`, `[..., n]` with exactly the leading axes of the factor, or `[..., n, k]`.
      overwrite_b, check_finite: of no effect; accepted for SciPy's sake.
    Returns:
      Array of the shape of `b`, its leading axes broadcast with those of the factor.
    Raises:
      ShapeError: the factor is not made of square matrices, or `b` does not fit them.
      TypeError: the factor or `b` is neither an array nor a number; `c_and_lower` is no pair.

    Source: meaning of `scipy.linalg.cho_solve`, on stacks.

    >>> cho_solve((np.array([[2., 0.], [1., 2.]]), True), np.array([8., 12.]))
    Array([1., 2.], dtype=float32)
    """
    if not isinstance(c_and_lower, (tuple, list)) or len(c_and_lower) != 2:
        raise TypeError("cho_solve: c_and_lower must be the pair (c, lower) of cho_factor; got "
                        f"{type(c_and_lower).__name__}")
    return _cho_solve(c_and_lower[0], b, bool(c_and_lower[1]))


def _cho_solve_core(c: Any, b: Any, lower: bool) -> Any:
    c, b, vector = _promote_pair("cho_solve", c, b, "c")
    return _restore_vector(_solve_triangular(c, _solve_triangular(c, b, lower, back=not lower), lower, back=lower),
                           vector)


_cho_solve = jit(_cho_solve_core, static_argnames=("lower",), inline=True)


def lu_solve(lu_and_piv: tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: int = 0, overwrite_b: bool = False,
             check_finite: bool = True) -> Array:
    """The solution x of `a x = b` from what `lu_factor(a)` gives.

    Args:
      lu_and_piv: both factors in one array `[..., n, n]`, and the rows that were exchanged, integers `[..., n]`.
      b: number array `[n]`, `[..., n]` with exactly the leading axes of the factors, or `[..., n, k]`.
      trans: 0 for `a x = b`, 1 for `a^T x = b`, 2 for `a^H x = b`.
      overwrite_b, check_finite: of no effect; accepted for SciPy's sake.
    Returns:
      Array of the shape of `b`, its leading axes broadcast with those of the factors.
    Raises:
      ValueError: `trans` is another number.
      ShapeError: the factors are not made of square matrices, or `b` or the rows do not fit them.
      TypeError: the factors or `b` are neither an array nor a number; `lu_and_piv` is no pair.

    Source: meaning of `scipy.linalg.lu_solve`, on stacks.

    >>> lu_solve((np.array([[2., 2.], [0.5, 4.]]), np.array([0, 1])), np.array([6., 11.]))
    Array([1., 2.], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"lu_solve: trans must be 0, 1 or 2; got {trans!r}")
    if not isinstance(lu_and_piv, (tuple, list)) or len(lu_and_piv) != 2:
        raise TypeError(f"lu_solve: lu_and_piv must be the pair (lu, piv) of lu_factor; got {type(lu_and_piv).__name__}")
    return _lu_solve(lu_and_piv[0], lu_and_piv[1], b, int(trans))


def _lu_solve_core(lu: Any, piv: Any, b: Any, trans: int) -> Any:
    s, p = typeof(lu).shape, typeof(piv)
    if p.shape != s[:-1] or p.dtype.kind not in "iu":
        raise ShapeError(f"lu_solve: expected lu [..., n, n] and piv, integers [..., n]; got {typeof(lu).str_long()} and "
                         f"{p.str_long()}")
    lu, b, vector = _promote_pair("lu_solve", lu, b, "lu")
    lead, n = typeof(lu).shape[:-2], s[-1]
    order = factorizations.lu_pivots_to_permutation(lnp.asarray(piv, _I32), n)
    order = lnp.expand_dims(lnp.broadcast_to(order, (*lead, n)), -1)
    if trans == 0:
        b = lnp.take_along_axis(b, order, -2)
        return _restore_vector(_solve_triangular(lu, _solve_triangular(lu, b, True, unit=True), False), vector)
    factors = lnp.conj(lu) if trans == 1 else lu  # `back` conjugates
    y = _solve_triangular(factors, _solve_triangular(factors, b, False, back=True), True, back=True, unit=True)
    return _restore_vector(lnp.take_along_axis(y, lnp.argsort(order, -2), -2), vector)


_lu_solve = jit(_lu_solve_core, static_argnames=("trans",), inline=True)
