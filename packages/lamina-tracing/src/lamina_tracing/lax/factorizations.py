"""Matrix factorizations and structured solves, the public `lax.linalg`, for the last two axes; all other axes are batch
axes.

A matrix without a result (not positive definite, no convergence) gets NaN and never an exception.
"""
from __future__ import annotations

from lamina_ir import dtypes, prims, ShapedArray, ShapeError
from lamina_ir.typing import Function, Value

from .._core.array import Array
from .._diagnostics.argument_errors import rename_errors
from . import elementwise as _e
from . import shape as _s
from .factor_updates import cholesky_update, ormqr, symmetric_product
from .qdwh import qdwh
from ._util.operands import ArrayLike, bind, scalar, typeof
from ._util.conversions import convert_element_type

__all__ = ["cholesky", "cholesky_update", "eig", "eigh", "geqrf", "hessenberg", "householder_product", "lu",
           "lu_pivots_to_permutation", "ormqr", "qdwh", "qr", "schur", "svd", "symmetric_product", "symmetrize",
           "triangular_solve", "tridiagonal", "tridiagonal_solve"]


def _matrix(op: str, x: Value) -> ShapedArray:
    aval = typeof(x)
    if len(aval.shape) < 2:
        raise ShapeError(f"{op}: expected matrices in the last two axes; got {aval.str_long()}")
    return aval


def _to_inexact(x: Value) -> Value:
    """Convert integers and booleans to floats."""
    return x if dtypes.is_inexact(typeof(x).dtype) else convert_element_type(x, dtypes.inexact_dtype_for(typeof(x).dtype))


def _swap_last_axes(x: Value, n: int) -> Value:
    return _s.transpose(x, (*range(n - 2), n - 1, n - 2))


def symmetrize(x: ArrayLike) -> Array:
    """Return the Hermitian part `(x + x^H) / 2` of square matrices.

    >>> symmetrize(np.array([[1., 2.], [0., 3.]], np.float32))
    Array([[1., 1.],
           [1., 3.]], dtype=float32)
    """
    aval = _matrix("symmetrize", x)
    other = _swap_last_axes(x, len(aval.shape))
    if dtypes.is_complex(aval.dtype):
        other = _e.conj(other)
    return _e.mul(_e.add(x, other), scalar(0.5, aval.dtype))


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """Compute the lower triangular L with `x = L L^H`.

    Args:
      x: array `[..., n, n]`, Hermitian and positive definite; integers become floats.
      symmetrize_input: take the Hermitian part of `x` first; else only its lower triangle is read.
    Returns:
      Array `[..., n, n]`, zero above the diagonal; NaN on and below it where `x` is not positive definite.

    Derivative: Murray, "Differentiation of the Cholesky decomposition" (2016). Source: LAPACK `potrf`.

    >>> cholesky(np.array([[4., 2.], [2., 5.]], np.float32))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    x = _to_inexact(x)
    aval = _matrix("cholesky", x)
    square = aval.shape[-1] == aval.shape[-2]
    return bind(prims.cholesky_p, symmetrize(x) if symmetrize_input and square else x)


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """`x[permutation] = L U` with L unit lower and U upper triangular, rows exchanged for large pivots.

    Args:
      x: float or complex array `[..., m, n]`.
    Returns:
      `(lu, pivots, permutation)`: L below and U on and above the diagonal `[..., m, n]`; the row that row k was
      exchanged with, int32 `[..., min(m, n)]`; the order of rows, int32 `[..., m]`.

    Derivative: de Hoog, Anderssen and Lukas (2011), the permutation held. Source: LAPACK `getrf`.

    >>> lu(np.array([[0., 2.], [3., 4.]], np.float32))[0]
    Array([[3., 4.],
           [0., 2.]], dtype=float32)
    """
    return bind(prims.lu_p, x)


@rename_errors
def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """Return the permutation of `permutation_size` rows that results from the row exchanges `pivots` of `lu`.

    >>> lu_pivots_to_permutation(np.array([2, 2], np.int32), 3)
    Array([2, 0, 1], dtype=int32)
    """
    return bind(prims.lu_pivots_to_permutation_p, pivots, permutation_size=int(permutation_size))


def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True) -> tuple[Array, ...]:
    """`x = Q R` with orthonormal columns in Q and R upper triangular.

    Args:
      x: float or complex array `[..., m, n]`.
      pivoting: choose the order of columns, the largest remaining one first; then `x[:, p] = Q R`.
      full_matrices: Q is square; else it has min(m, n) columns.
    Returns:
      `(q, r)`: `[..., m, k]` and `[..., k, n]`; with `pivoting` also p, int32 `[..., n]`.

    Derivative: Walter, Lehmann and Lamour (2012); columns of Q beyond the n-th change only as a subspace.
    Source: LAPACK `geqrf`, `geqp3`, `orgqr`.

    >>> [x.shape for x in qr(np.ones((4, 2), np.float32), full_matrices=False)]
    [(4, 2), (2, 2)]
    """
    return bind(prims.qr_p, x, full_matrices=bool(full_matrices), pivoting=bool(pivoting))


def geqrf(a: ArrayLike) -> tuple[Array, Array]:
    """Compute R of `qr` in the upper triangle, the Householder vectors below it, and their factors tau.

    >>> [x.shape for x in geqrf(np.ones((4, 2), np.float32))]
    [(4, 2), (2,)]
    """
    return bind(prims.geqrf_p, a)


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """Compute the first n columns of `H_1 H_2 ... H_k`, with `H_i = I - tau_i v_i v_i^H`.

    Args:
      a: array `[..., m, n]`, m >= n: the tail of `v_i` is below the diagonal of column i, with an implicit 1 on the diagonal.
      taus: array `[..., k]`, k <= n.
    Returns:
      Array `[..., m, n]`.

    Derivative: through the compact form `I - V T V^H` of Schreiber and Van Loan (1989). Source: LAPACK `orgqr`.

    >>> householder_product(np.zeros((2, 1), np.float32), np.array([2.], np.float32))
    Array([[-1.],
           [ 0.]], dtype=float32)
    """
    return bind(prims.householder_product_p, a, taus)


def _subset(op: str, subset_by_index: tuple[int, int] | None, n: int) -> tuple[int, int] | None:
    if subset_by_index is None or tuple(subset_by_index) == (0, n):
        return None
    first, last = (int(i) for i in subset_by_index)
    if not 0 <= first < last <= n:
        raise ValueError(f"{op}: subset_by_index must be (first, last) with 0 <= first < last <= {n}; got "
                         f"{tuple(subset_by_index)}")
    return first, last


def _slice_span(x: Value, span: tuple[int, int], axis: int) -> Value:
    return _s.slice_in_dim(x, *span, axis=len(typeof(x).shape) + axis)


@rename_errors
def eigh(x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True,
         subset_by_index: tuple[int, int] | None = None) -> tuple[Array, Array]:
    """`x = V diag(w) V^H` for Hermitian matrices.

    Args:
      x: array `[..., n, n]`; integers become floats.
      lower: whether the lower triangle is read if the input is not symmetrized.
      symmetrize_input: take the Hermitian part of `x` first.
      sort_eigenvalues: they are ascending in any case.
      subset_by_index: `(first, last)`: the eigenvalues first, ..., last - 1 in ascending order.
    Returns:
      `(v, w)`: eigenvectors in columns `[..., n, n]`, each up to a factor of size one, and real eigenvalues `[..., n]`.

    Derivative: Giles, "An extended collection of matrix derivative results" (2008), 3.1; infinite where eigenvalues
    coincide. Source: LAPACK `syevd`, `heevd`.

    >>> eigh(np.diag(np.array([3., 1.], np.float32)))[1]
    Array([1., 3.], dtype=float32)
    """
    x = _to_inexact(x)
    aval = _matrix("eigh", x)
    n = aval.shape[-1]
    v, w = bind(prims.eigh_p, symmetrize(x) if symmetrize_input and n == aval.shape[-2] else x, lower=bool(lower))
    span = _subset("eigh", subset_by_index, n)
    return (v, w) if span is None else (_slice_span(v, span, -1), _slice_span(w, span, -1))


def eig(x: ArrayLike, *, compute_left_eigenvectors: bool = True,
        compute_right_eigenvectors: bool = True) -> list[Array]:
    """Compute eigenvalues and eigenvectors of square matrices.

    Args:
      x: float or complex array `[..., n, n]`.
      compute_left_eigenvectors: give U with `U^H x = diag(w) U^H`.
      compute_right_eigenvectors: give V with `x V = V diag(w)`.
    Returns:
      List of w `[..., n]`, U and V `[..., n, n]` if requested; complex. Vectors have length 1 and a real largest entry.

    Derivative: Giles (2008), 3.2, and Boeddeker, Hanebrink, Drude, Heymann and Haeb-Umbach (2017) for the vectors.
    Source: LAPACK `geev`. CPU only.

    >>> eig(np.array([[0., 1.], [-1., 0.]], np.float32), compute_left_eigenvectors=False)[0]
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return list(bind(prims.eig_p, x, compute_left_eigenvectors=bool(compute_left_eigenvectors),
                     compute_right_eigenvectors=bool(compute_right_eigenvectors)))


@rename_errors
def svd(x: ArrayLike, *, full_matrices: bool = True, compute_uv: bool = True,
        subset_by_index: tuple[int, int] | None = None) -> Array | tuple[Array, Array, Array]:
    """`x = U diag(s) V^H`, the singular value decomposition.

    Args:
      x: float or complex array `[..., m, n]`.
      full_matrices: U and V are square; else they have min(m, n) columns.
      compute_uv: give U and V^H too.
      subset_by_index: `(first, last)`: the singular values first, ..., last - 1 in descending order; not with
        full matrices.
    Returns:
      `(u, s, vh)`, or s alone: `[..., m, k]`, `[..., min(m, n)]` (real, descending), `[..., k, n]`.

    Derivative: Giles (2008), 3.3, and Wan and Zhang (2019) for complex matrices; infinite where singular values
    coincide. Source: LAPACK `gesdd`.

    >>> svd(np.array([[3., 0.], [0., -4.]], np.float32), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    aval = _matrix("svd", x)
    span = _subset("svd", subset_by_index, min(aval.shape[-2:]))
    if span is not None and full_matrices and compute_uv:
        raise ValueError("svd: subset_by_index needs full_matrices=False")
    outs = bind(prims.svd_p, x, compute_uv=bool(compute_uv), full_matrices=bool(full_matrices and compute_uv))
    if not compute_uv:
        return outs[0] if span is None else _slice_span(outs[0], span, -1)
    s, u, vh = outs
    if span is None:
        return u, s, vh
    return _slice_span(u, span, -1), _slice_span(s, span, -1), _slice_span(vh, span, -2)


def triangular_solve(a: ArrayLike, b: ArrayLike, *, left_side: bool = False, lower: bool = False,
                     transpose_a: bool = False, conjugate_a: bool = False, unit_diagonal: bool = False) -> Array:
    """Solve `op(a) x = b`, or `x op(a) = b`, for triangular matrices.

    Args:
      a: float or complex array `[..., n, n]`; one triangle is read.
      b: array `[..., n, k]` with `left_side`, else `[..., k, n]`; or with one axis less, when k is left out.
      left_side: whether `a` is to the left of `x`.
      lower: whether the lower triangle of `a` is read.
      transpose_a, conjugate_a: whether op transposes and conjugates a.
      unit_diagonal: use ones instead of the diagonal.
    Returns:
      Array of the shape of `b`.

    Derivative: linear in b; `-op(a)^-1 op(da) x` in a. Source: StableHLO `triangular_solve`, BLAS `trsm`.

    >>> a = np.array([[2., 0.], [1., 4.]], np.float32)
    >>> triangular_solve(a, np.array([[2.], [9.]], np.float32), left_side=True, lower=True)
    Array([[1.],
           [2.]], dtype=float32)
    """
    ta, tb = _matrix("triangular_solve", a), typeof(b)
    vector = len(tb.shape) == len(ta.shape) - 1
    if vector:
        b = _s.expand_dims(b, (len(tb.shape) - (0 if left_side else 1),))
    conjugate_a = bool(conjugate_a) and dtypes.is_complex(ta.dtype)
    x = bind(prims.triangular_solve_p, a, b, conjugate_a=conjugate_a, left_side=bool(left_side), lower=bool(lower),
             transpose_a=bool(transpose_a), unit_diagonal=bool(unit_diagonal))
    return _s.reshape(x, tb.shape) if vector else x


def tridiagonal_solve(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike) -> Array:
    """Solve `T x = b` with T tridiagonal, by elimination with row exchanges.

    Args:
      dl: below the diagonal, `[..., n]`; its first entry is not read.
      d: the diagonal `[..., n]`.
      du: above the diagonal `[..., n]`; its last entry is not read.
      b: `[..., n, k]`.
    Returns:
      Array of the shape of `b`; NaN where T is singular.

    Derivative: linear in b; `-T^-1 dT x` in the diagonals. Source: LAPACK `gtsv`.

    >>> ones = np.ones(3, np.float32)
    >>> tridiagonal_solve(0 * ones, 2 * ones, 0 * ones, ones[:, None])[:, 0]
    Array([0.5, 0.5, 0.5], dtype=float32)
    """
    return bind(prims.tridiagonal_solve_p, dl, d, du, b)


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """`Q^H a Q`, zero below the first subdiagonal, with the Householder vectors of Q stored there.

    Args:
      a: float or complex array `[..., n, n]`.
    Returns:
      `(h, taus)`: `[..., n, n]` and `[..., n - 1]`; `householder_product` of `h[1:, :-1]` and taus is Q's lower block.

    Source: LAPACK `gehrd`. CPU only. It has no derivative rule.

    >>> [x.shape for x in hessenberg(np.ones((3, 3), np.float32))]
    [(3, 3), (2,)]
    """
    return bind(prims.hessenberg_p, a)


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """`Q^H a Q`, tridiagonal, for Hermitian matrices.

    Args:
      a: float or complex array `[..., n, n]`; one triangle is read.
      lower: whether it is the lower one.
    Returns:
      `(packed, d, e, taus)`: the Householder vectors of Q in one triangle `[..., n, n]`, the diagonal `[..., n]` and the
      off-diagonal `[..., n - 1]` (both real), and the factors of the vectors `[..., n - 1]`.

    Source: LAPACK `sytrd`, `hetrd`. It has no derivative rule.

    >>> tridiagonal(np.diag(np.array([3., 1., 2.], np.float32)))[1]
    Array([3., 1., 2.], dtype=float32)
    """
    return bind(prims.tridiagonal_p, a, lower=bool(lower))


def schur(x: ArrayLike, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False,
          select_callable: Function | None = None) -> tuple[Array, ...]:
    """`x = Q T Q^H`, T upper triangular; for real x with 2 by 2 blocks for pairs of complex eigenvalues.

    Args:
      x: float or complex array `[..., n, n]`.
      compute_schur_vectors: give Q too.
      sort_eig_vals, select_callable: an order of the eigenvalues; not available.
    Returns:
      `(t, q)`, or `(t,)`.

    Source: LAPACK `gees`. CPU only. It has no derivative rule.

    >>> schur(np.array([[1., 2.], [0., 3.]], np.float32), compute_schur_vectors=False)[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if sort_eig_vals or select_callable is not None:
        raise NotImplementedError("schur: eigenvalues cannot be ordered; leave out sort_eig_vals and select_callable")
    return tuple(bind(prims.schur_p, x, compute_schur_vectors=bool(compute_schur_vectors)))
