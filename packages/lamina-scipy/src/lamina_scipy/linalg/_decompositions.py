"""Factors of matrices: Cholesky, LU, QR, singular values, eigenvectors, Schur, Hessenberg and polar forms."""
from __future__ import annotations

import functools
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import custom_jvp
from lamina_ir import ShapeError, dtypes
from lamina_numpy.extend import ignore_strict_promotion, public_api
from lamina_tracing import Array, ArrayLike, jit, lax
from lamina_tracing.extend import typeof
from lamina_tracing.lax import factorizations

from ._util import adjoint, mm, promote_all, to_matrices, triangle

__all__ = ["cho_factor", "cholesky", "eigh", "hessenberg", "lu", "lu_factor", "polar", "qr", "qr_multiply",
           "rsf2csf", "schur", "svd"]


@public_api("lower", "overwrite_a", "check_finite")
def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The triangular factor of Hermitian positive definite matrices: `a = R^H R`, or `a = L L^H`.

    Args:
      a: number array `[..., n, n]`, of which one triangle is read.
      lower: read the lower triangle and give L; else the upper one and R.
      overwrite_a, check_finite: of no effect; accepted for SciPy's sake.
    Returns:
      Float or complex array `[..., n, n]`, zero in the other triangle; NaN where a matrix is not positive definite,
      where SciPy raises. Half precision is computed in float32.
    Raises:
      ShapeError: `a` has fewer than two axes, or its last two differ in length.
      TypeError: `a` is neither an array nor a number.

    Source: meaning of `scipy.linalg.cholesky`, on stacks; LAPACK `potrf`.

    >>> cholesky(np.array([[4., 2.], [2., 5.]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    return _cholesky_core("cholesky", a, lower)


@ignore_strict_promotion
def _cholesky_core(call: str, a: Any, lower: bool) -> Any:
    factor = factorizations.cholesky(triangle(to_matrices(call, a, True), lower), symmetrize_input=False)
    return factor if lower else adjoint(factor)


_cholesky = jit(_cholesky_core, static_argnames=("call", "lower"), inline=True)


def cho_factor(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, bool]:
    """What `cho_solve` solves systems of Hermitian positive definite matrices with.

    Args:
      a: number array `[..., n, n]`, of which one triangle is read.
      lower: read the lower triangle and give the lower factor; else the upper ones.
      overwrite_a, check_finite: of no effect; accepted for SciPy's sake.
    Returns:
      The pair `(factor, lower)`: what `cholesky` gives, whose other triangle is zero where SciPy leaves anything, and
      a bool.
    Raises:
      ShapeError: `a` has fewer than two axes, or its last two differ in length.
      TypeError: `a` is neither an array nor a number.

    Source: meaning of `scipy.linalg.cho_factor`, on stacks.

    >>> cho_factor(np.array([[4., 2.], [2., 5.]]), lower=True)
    (Array([[2., 0.],
           [1., 2.]], dtype=float32), True)
    """
    return _cholesky("cho_factor", a, bool(lower)), bool(lower)


@public_api("permute_l", "overwrite_a", "check_finite")
@ignore_strict_promotion
def lu(a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The factors of `a = P L U`: a permutation, unit lower triangular, upper triangular.

    Args:
      a: number array `[..., m, n]`; k is the smaller of m and n.
      permute_l: give `P L` in one.
      overwrite_a, check_finite: of no effect; accepted for SciPy's sake.
    Returns:
      `(P, L, U)`: `[..., m, m]`, `[..., m, k]`, `[..., k, n]`, or `(P L, U)`; half precision is computed in float32.
    Raises:
      ShapeError: `a` has fewer than two axes.
      TypeError: `a` is neither an array nor a number.

    Derivative: the permutation held.
    Source: meaning of `scipy.linalg.lu`; LAPACK `getrf`.

    >>> lu(np.array([[0., 2.], [3., 4.]]), permute_l=True)
    (Array([[0., 1.],
           [1., 0.]], dtype=float32), Array([[3., 4.],
           [0., 2.]], dtype=float32))
    """
    both, _, order = factorizations.lu(to_matrices("lu", a))
    t = typeof(both)
    m, n = t.shape[-2:]
    k = min(m, n)
    lower = lnp.tril(both[..., :k], -1) + lnp.eye(m, k, dtype=t.dtype)
    upper = lnp.triu(both[..., :k, :])
    if permute_l:
        return lnp.take_along_axis(lower, lnp.expand_dims(lnp.argsort(order, -1), -1), -2), upper
    rows = lax.broadcasted_iota(np.dtype("int32"), (m, m), 0)
    return lnp.astype(rows == lnp.expand_dims(order, -2), np.finfo(t.dtype).dtype), lower, upper


@public_api("overwrite_a", "check_finite")
def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """What `lu_solve` solves systems with: both factors in one array, and the exchanges of rows.

    Args:
      a: number array `[..., m, n]`; k is the smaller of m and n.
      overwrite_a, check_finite: of no effect; accepted for SciPy's sake.
    Returns:
      `(lu, piv)`: L below and U on and above the diagonal `[..., m, n]`; the row that row i was exchanged with, int32
      `[..., k]`.
    Raises:
      ShapeError: `a` has fewer than two axes.
      TypeError: `a` is neither an array nor a number.

    Derivative: the exchanges held.
    Source: meaning of `scipy.linalg.lu_factor`, on stacks; LAPACK `getrf`.

    >>> lu_factor(np.array([[0., 2.], [3., 4.]]))
    (Array([[3., 4.],
           [0., 2.]], dtype=float32), Array([1, 1], dtype=int32))
    """
    both, pivots, _ = factorizations.lu(to_matrices("lu_factor", a))
    return both, pivots


@public_api("overwrite_a", "lwork", "mode", "pivoting", "check_finite")
def qr(a: ArrayLike, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
       check_finite: bool = True) -> tuple[Array, ...]:
    """The factors of `a = Q R`: Q with orthonormal columns, R upper triangular.

    Args:
      a: number array `[..., m, n]`; k is the smaller of m and n.
      overwrite_a, lwork, check_finite: of no effect; accepted for SciPy's sake.
      mode: "full" (Q `[..., m, m]`, R `[..., m, n]`), "economic" (Q `[..., m, k]`, R `[..., k, n]`) or "r" (R of
        "full" alone).
      pivoting: choose the order of columns, the largest remaining one first: `a[:, p] = Q R`.
    Returns:
      `(Q, R)`, or `(R,)`; with `pivoting` the order p, int32 `[..., n]`, comes last. Half precision is computed in
      float32.
    Raises:
      ShapeError: `a` has fewer than two axes.
      ValueError: `mode` is another word.
      TypeError: `a` is neither an array nor a number.

    Source: meaning of `scipy.linalg.qr`, on stacks; LAPACK `geqrf`, `geqp3`.

    >>> [x.shape for x in qr(np.ones((3, 2)), mode="economic")]
    [(3, 2), (2, 2)]
    """
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"qr: mode must be 'full', 'economic' or 'r'; got {mode!r}")
    made = factorizations.qr(to_matrices("qr", a), pivoting=pivoting, full_matrices=mode != "economic")
    return tuple(made[1:] if mode == "r" else made)


@public_api("mode", "pivoting", "conjugate", "overwrite_a", "overwrite_c")
def qr_multiply(a: ArrayLike, c: ArrayLike, mode: str = "right", pivoting: bool = False, conjugate: bool = False,
                overwrite_a: bool = False, overwrite_c: bool = False) -> tuple[Array, ...]:
    """The product of a matrix with Q of the factors `a = Q R`, and R.

    Args:
      a: number array `[..., m, n]`; k is the smaller of m and n.
      c: number array: `[..., p, m]` for "right", `[..., k, p]` for "left"; or a vector `[m]` or `[k]`.
      mode: "right" for `c @ Q`, "left" for `Q @ c`.
      pivoting: exchange columns so that the diagonal of R decreases in size.
      conjugate: take the conjugate of Q, without transposing it.
      overwrite_a, overwrite_c: of no effect; accepted for SciPy's sake.
    Returns:
      `(product, R)`: `[..., p, k]` or `[..., m, p]`, a vector if `c` is one; `[..., k, n]`. With `pivoting` also the order of
      the columns, int32 `[..., n]`.
    Raises:
      ShapeError: `a` has fewer than two axes, or `c` does not fit Q.
      TypeError: `a` or `c` is neither an array nor a number.
      ValueError: the mode is unknown.

    Source: meaning of `scipy.linalg.qr_multiply`, on stacks.

    >>> product, r = qr_multiply(np.array([[3., 1.], [0., 2.]]), np.array([1., 1.]))
    >>> np.abs(product)
    array([1., 1.], dtype=float32)
    """
    if mode not in ("left", "right"):
        raise ValueError(f'qr_multiply: mode must be "left" or "right"; got {mode!r}')
    a, c = promote_all("qr_multiply", a, c)
    q, *rest = factorizations.qr(to_matrices("qr_multiply", a), pivoting=bool(pivoting), full_matrices=False)
    t, vector = typeof(c), len(typeof(c).shape) == 1
    m, k = typeof(q).shape[-2:]
    if not t.shape or t.shape[-1 if vector or mode == "right" else -2] != (m if mode == "right" else k):
        length = f"{m} columns" if mode == "right" else f"{k} rows"
        raise ShapeError(f"qr_multiply: c must have {length}, to be multiplied with Q of shape ({m}, {k}); got {t.str_long()}")
    q = lnp.conj(q) if conjugate else q
    return mm(c, q) if mode == "right" else mm(q, c), *rest


@public_api("full_matrices", "compute_uv", "overwrite_a", "check_finite", "lapack_driver")
def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
        lapack_driver: str = "gesdd") -> Any:
    """The singular value decomposition `a = U diag(s) Vh`, singular values descending.

    Args:
      a: number array `[..., m, n]`; k is the smaller of m and n.
      full_matrices: U is `[..., m, m]` and Vh `[..., n, n]`; else `[..., m, k]` and `[..., k, n]`.
      compute_uv: give U and Vh too; else s alone.
      overwrite_a, check_finite: of no effect; accepted for SciPy's sake.
      lapack_driver: "gesdd" or "gesvd"; the platform's own algorithm runs whichever is named.
    Returns:
      `(U, s, Vh)`, or s `[..., k]` alone, which is real; half precision is computed in float32.
    Raises:
      ShapeError: `a` has fewer than two axes.
      ValueError: `lapack_driver` is another word.
      TypeError: `a` is neither an array nor a number.

    Derivative: where singular values are equal, that of U and Vh is NaN unless the result does not depend on their
      vectors; that of s alone is not.
    Source: meaning of `scipy.linalg.svd`, on stacks.

    >>> svd(np.array([[0., 2.], [1., 0.]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    if lapack_driver not in ("gesdd", "gesvd"):
        raise ValueError(f"svd: lapack_driver must be 'gesdd' or 'gesvd'; got {lapack_driver!r}")
    return factorizations.svd(to_matrices("svd", a), full_matrices=full_matrices, compute_uv=compute_uv)


@public_api("lower", "eigvals_only", "overwrite_a", "overwrite_b", "turbo", "eigvals", "type", "check_finite")
def eigh(a: ArrayLike, b: ArrayLike | None = None, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
         overwrite_b: bool = False, turbo: bool = True, eigvals: None = None, type: int = 1, check_finite: bool = True) -> Any:
    """Eigenvalues, ascending, and eigenvectors, in columns, of Hermitian matrices.

    Args:
      a: number array `[..., n, n]`, of which one triangle is read.
      b: number array `[..., n, n]`, Hermitian positive definite, of which one triangle is read; None for the identity.
      lower: read the lower triangles; else the upper ones.
      eigvals_only: give the eigenvalues alone.
      overwrite_a, overwrite_b, turbo, check_finite: of no effect; accepted for SciPy's sake.
      eigvals: None: all of them.
      type: of the problem with `b`: 1 for `a v = w b v`, 2 for `a b v = w v`, 3 for `b a v = w v`.
    Returns:
      Eigenvalues, real `[..., n]`, or these and the eigenvectors V `[..., n, n]`, with `V^H V = 1`; with `b` `V^H b V
      = 1`, and for type 3 `V^H b^-1 V = 1`. NaN where `b` is not positive definite. Half precision is computed in
      float32.
    Raises:
      ShapeError: `a` or `b` is not made of square matrices, or they differ in size.
      ValueError: `type` is another number.
      NotImplementedError: `eigvals` is given, or a `type` other than 1 without `b`.
      TypeError: `a` or `b` is neither an array nor a number.

    Derivative: where eigenvalues are equal, that of the eigenvectors is NaN unless the result does not depend on
      theirs.
    Source: meaning of `scipy.linalg.eigh`, on stacks; with `b` by its Cholesky factor, as LAPACK `sygst` does.

    >>> eigh(np.array([[2., 1.], [1., 2.]]), np.diag([2., 2.]), eigvals_only=True).round(3)
    Array([0.5, 1.5], dtype=float32)
    """
    if eigvals is not None:
        raise NotImplementedError("eigh: eigvals is not available; take a slice of the result")
    if type not in (1, 2, 3):
        raise ValueError(f"eigh: type must be 1, 2 or 3; got {type!r}")
    if b is None:
        if type != 1:
            raise NotImplementedError(f"eigh: type={type} needs b")
        v, w = factorizations.eigh(triangle(to_matrices("eigh", a, True), lower), symmetrize_input=False)
        return w if eigvals_only else (w, v)
    a, b = promote_all("eigh", a, b)
    a, b = to_matrices("eigh", a, True), to_matrices("eigh", b, True, "b")
    if typeof(a).shape[-1] != typeof(b).shape[-1]:
        raise ShapeError(f"eigh: expected a and b of one size; got {typeof(a).str_long()} and {typeof(b).str_long()}")
    lead = lnp.broadcast_shapes(typeof(a).shape[:-2], typeof(b).shape[:-2])
    a, b = (triangle(lnp.broadcast_to(x, lead + typeof(x).shape[-2:]), lower) for x in (a, b))
    factor = factorizations.cholesky(b, symmetrize_input=False)
    over = functools.partial(factorizations.triangular_solve, factor, left_side=True, lower=True)
    inner = over(adjoint(over(a))) if type == 1 else mm(adjoint(factor), mm(a, factor))
    v, w = factorizations.eigh(inner)
    if eigvals_only:
        return w
    return w, mm(factor, v) if type == 3 else over(v, transpose_a=True, conjugate_a=True)


@public_api("output")
@ignore_strict_promotion
def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """The Schur form `a = Z T Z^H`: Z unitary, T upper triangular.

    Args:
      a: number array `[..., n, n]`.
      output: "real": T of a real `a` is real, with blocks of two rows for pairs of complex eigenvalues; "complex": T
        is triangular and complex.
    Returns:
      `(T, Z)`, each `[..., n, n]`; half precision is computed in float32.
    Raises:
      ShapeError: `a` has fewer than two axes, or its last two differ in length.
      ValueError: `output` is another word.
      MissingRuleError: a derivative is asked for.
      TypeError: `a` is neither an array nor a number.

    Source: meaning of `scipy.linalg.schur`, on stacks; LAPACK `gees`. CPU only.

    >>> schur(np.array([[1., 2.], [0., 3.]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ValueError(f"schur: output must be 'real' or 'complex'; got {output!r}")
    t, z = factorizations.schur(to_matrices("schur", a, True))
    return rsf2csf(t, z) if output == "complex" else (t, z)


@public_api("check_finite")
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form of what a real one stands for.

    Args:
      T: number array `[..., n, n]`, upper triangular but for blocks of two rows.
      Z: number array `[..., n, n]`, unitary.
      check_finite: of no effect; accepted for SciPy's sake.
    Returns:
      Complex `(T, Z)`, each `[..., n, n]`: T upper triangular, `Z T Z^H` as before.
    Raises:
      ShapeError: `T` or `Z` is not made of square matrices, or they differ in shape.
      TypeError: `T` or `Z` is neither an array nor a number.

    Source: meaning of `scipy.linalg.rsf2csf`, on stacks: one plane rotation per block, from the bottom to the top.

    >>> rsf2csf(np.array([[0., 2.], [-2., 0.]]), np.eye(2))[0].round(3) + 0
    Array([[0.+2.j, 0.+0.j],
           [0.+0.j, 0.-2.j]], dtype=complex64)
    """
    t, z = promote_all("rsf2csf", T, Z)
    t, z = to_matrices("rsf2csf", t, True, "T"), to_matrices("rsf2csf", z, True, "Z")
    if typeof(t).shape != typeof(z).shape:
        raise ShapeError(f"rsf2csf: expected T and Z of one shape; got {typeof(t).str_long()} and {typeof(z).str_long()}")
    if dtypes.is_complex(typeof(t).dtype):
        return t, z
    d = np.result_type(typeof(t).dtype, np.complex64)
    return lnp.vectorize(_triangularize, signature="(n,n),(n,n)->(n,n),(n,n)")(lnp.astype(t, d), lnp.astype(z, d))


@ignore_strict_promotion
def _triangularize(t: Any, z: Any) -> Any:
    n = typeof(t).shape[0]
    eps = np.finfo(typeof(t).dtype).eps

    def rotate(i: Any, forms: Any) -> Any:
        t, z = forms
        m = n - 1 - i
        block = lax.dynamic_slice(t, (m - 1, m - 1), (2, 2))
        below = block[1, 0]
        small = lnp.abs(below) <= eps * (lnp.abs(block[0, 0]) + lnp.abs(block[1, 1]))
        half = (block[0, 0] - block[1, 1]) / 2
        first = half + lnp.sqrt(half * half + block[0, 1] * below)  # an eigenvalue less the last diagonal element
        size = lnp.where(small, 1, lnp.hypot(lnp.abs(first), lnp.abs(below)))
        c, s = lnp.where(small, 1, first / size), lnp.where(small, 0, below / size)
        turn = lnp.stack([lnp.stack([c, -lnp.conj(s)]), lnp.stack([s, lnp.conj(c)])])  # its eigenvector comes first
        t = lax.dynamic_update_slice(t, mm(adjoint(turn), lax.dynamic_slice(t, (m - 1, 0), (2, n))), (m - 1, 0))
        t, z = (lax.dynamic_update_slice(x, mm(lax.dynamic_slice(x, (0, m - 1), (n, 2)), turn), (0, m - 1)) for x in (t, z))
        return lax.dynamic_update_slice(t, lnp.zeros((1, 1), typeof(t).dtype), (m, m - 1)), z

    return lax.fori_loop(0, max(n - 1, 0), rotate, (t, z)) if n > 1 else (t, z)


@public_api("calc_q", "overwrite_a", "check_finite")
def hessenberg(a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The Hessenberg form `a = Q H Q^H`: Q unitary, H zero below the first subdiagonal.

    Args:
      a: number array `[..., n, n]`.
      calc_q: give Q too.
      overwrite_a, check_finite: of no effect; accepted for SciPy's sake.
    Returns:
      H `[..., n, n]`, or `(H, Q)`; half precision is computed in float32.
    Raises:
      ShapeError: `a` has fewer than two axes, or its last two differ in length.
      MissingRuleError: a derivative is asked for.
      TypeError: `a` is neither an array nor a number.

    Source: meaning of `scipy.linalg.hessenberg`, on stacks; LAPACK `gehrd`. CPU only.

    >>> hessenberg(np.arange(9.).reshape(3, 3))[2, 0]
    Array(0., dtype=float32)
    """
    a = to_matrices("hessenberg", a, True)
    t = typeof(a)
    n = t.shape[-1]
    if n < 2:
        packed, q = a, lnp.broadcast_to(lnp.eye(n, dtype=t.dtype), t.shape)
    else:
        packed, taus = factorizations.hessenberg(a)
        inner = factorizations.householder_product(packed[..., 1:, :-1], taus)
        q = lnp.pad(inner, [(0, 0)] * (len(t.shape) - 2) + [(1, 0), (1, 0)])
        q = q + lnp.diag(lnp.asarray([1] + [0] * (n - 1), t.dtype))
    h = lnp.triu(packed, -1)
    return (h, q) if calc_q else h


@public_api("side", "method", "eps", "max_iterations")
def polar(a: ArrayLike, side: str = "right", *, method: str = "qdwh", eps: float | None = None,
          max_iterations: int | None = None) -> tuple[Array, Array]:
    """The polar decomposition: `a = u p`, or `a = p u`, u with orthonormal columns or rows, p Hermitian and semi-definite.

    Args:
      a: number array `[..., m, n]`.
      side: "right" for `a = u p`, "left" for `a = p u`.
      method: "qdwh", for matrices of full rank, or "svd".
      eps: precision aimed at by "qdwh"; None for that of the dtype.
      max_iterations: at most so many steps of "qdwh"; None for 10.
    Returns:
      `(u, p)`: `[..., m, n]`, and `[..., n, n]` or, left, `[..., m, m]`. A matrix that "qdwh" does not come to an end
      with gives NaN; half precision is computed in float32.
    Raises:
      ShapeError: `a` has fewer than two axes.
      ValueError: `side` or `method` is another word.
      TypeError: `a` is neither an array nor a number.

    Derivative: Kenney and Laub, "Polar decomposition and matrix sign function condition estimates" (1991), 2.
    Source: meaning of `scipy.linalg.polar`, on stacks; Nakatsukasa, Bai and Gygi, "Optimizing Halley's iteration for
      computing the matrix polar decomposition" (2010).

    >>> u, p = polar(np.array([[0., -2.], [3., 0.]]))
    >>> u.round(3) + 0, p.round(3) + 0
    (Array([[ 0., -1.],
           [ 1.,  0.]], dtype=float32), Array([[3., 0.],
           [0., 2.]], dtype=float32))
    """
    if side not in ("right", "left"):
        raise ValueError(f"polar: side must be 'right' or 'left'; got {side!r}")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"polar: method must be 'qdwh' or 'svd'; got {method!r}")
    a = to_matrices("polar", a)
    m, n = typeof(a).shape[-2:]
    u = _unitary(a, method, eps, max_iterations) if m >= n else adjoint(_unitary(adjoint(a), method, eps, max_iterations))
    p = mm(adjoint(u), a) if side == "right" else mm(a, adjoint(u))
    return u, (p + adjoint(p)) / 2


@functools.partial(custom_jvp, nondiff_argnums=(1, 2, 3))
def _unitary(a: Any, method: str, eps: float | None, max_iterations: int | None) -> Any:
    if method == "svd":
        w, _, vh = factorizations.svd(a, full_matrices=False)
        return mm(w, vh)

    def factor_one(x: Any) -> Any:
        u, _, _, converged = factorizations.qdwh(x, eps=eps, max_iterations=max_iterations)
        return lnp.where(converged, u, np.nan)
    return lnp.vectorize(factor_one, signature="(m,n)->(m,n)")(a)


@_unitary.defjvp
def _unitary_jvp(method: str, eps: float | None, max_iterations: int | None, primals: Any, tangents: Any) -> Any:
    (a,), (da,) = primals, tangents
    w, s, vh = factorizations.svd(a, full_matrices=False)
    right = mm(da, adjoint(vh))
    inner = mm(adjoint(w), right)
    s = lnp.astype(s, typeof(a).dtype)
    moved = mm(w, mm((inner - adjoint(inner)) / (lnp.expand_dims(s, -1) + lnp.expand_dims(s, -2)), vh))
    m, n = typeof(a).shape[-2:]
    if m > n:
        moved = moved + mm((right - mm(w, inner)) / lnp.expand_dims(s, -2), vh)
    return _unitary(a, method, eps, max_iterations), moved
