"""Matrix factorisations, the second part of `numpy.linalg`; each is a call of `lax.linalg`.

Matrices are in the last two axes. A matrix without a factorisation (not positive definite) gives NaN, where NumPy
raises. Functions that use the factors are in `_solving.py` and `_determinants.py`.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from lamina_ir.extend import docstring_entries
from lamina_tracing import Array, ArrayLike, hooks, lax
from lamina_tracing.extend import typeof
from lamina_tracing.lax import factorizations as _linalg

from .._elementwise import special, ufuncs
from .._shape import layout
from .._core.promotion import convert, literal, to_inexact
from .._core.public_api import public_api
from .._core.select import choose_by
from .._indexing.take import take_along_axis

__all__ = ["cholesky", "eig", "eigh", "EighResult", "EigResult", "eigvals", "eigvalsh", "qr", "QRResult", "svd",
           "SVDResult", "svdvals"]

_DECOMPOSITION = docstring_entries("""
    a: number array `[..., n, n]`.
    symmetrize_input: whether to use `(a + a^H) / 2`; if not, one triangle is read.
    UPLO: which triangle to read, "L" or "U"; None for "L". It matters only with `symmetrize_input=False`.
    ValueError: `a` has fewer than two axes, or its last two differ in length.
    TypeError: `a` is neither an array nor a number.
    """)

_I32 = np.dtype("int32")


class EigResult(NamedTuple):
    """What `eig` gives."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Any
    S: Any
    Vh: Any


def runs_on_numpy() -> bool:
    """Whether programs run on NumPy, which solves a system faster than it makes a decomposition for several."""
    return isinstance(hooks.evaluator, hooks.NumPyEvaluator)


def to_matrices(call: str, a: Any, square: bool = False) -> Any:
    """`a` in a float dtype that factorisations have: half precision goes through float32."""
    a = to_inexact(call, a)
    t = typeof(a)
    if len(t.shape) < 2:
        raise ValueError(f"{call}: expected matrices in the last two axes; got {t.str_long()}")
    if square and t.shape[-1] != t.shape[-2]:
        raise ValueError(f"{call}: expected square matrices in the last two axes; got {t.str_long()}")
    return convert(a, np.dtype("float32")) if t.dtype.itemsize < 4 else a


def adjoint(x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return ufuncs.conj(layout.matrix_transpose(x))


@public_api("upper", "symmetrize_input", entries=_DECOMPOSITION)
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular factor L of Hermitian positive definite matrices: `a = L L^H`.

    Args:
      a: number array `[..., n, n]`.
      upper: give the upper triangular `L^H` instead.
      symmetrize_input: take `(a + a^H) / 2`; where False, only the triangle that the result fills is read.
    Returns:
      Float or complex array `[..., n, n]`; half precision is computed in float32, integers and booleans in float.
      NaN where a matrix is not positive definite, where NumPy raises.
    Raises: {ValueError, TypeError}

    Source: meaning of `numpy.linalg.cholesky`; LAPACK `potrf` on the CPU.

    >>> cholesky(np.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    a = to_matrices("cholesky", a, square=True)
    out = _linalg.cholesky(adjoint(a) if upper and not symmetrize_input else a, symmetrize_input=symmetrize_input)
    return adjoint(out) if upper else out


@public_api("mode")
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """The factors of `a = Q R`: Q with orthonormal columns, R upper triangular.

    Args:
      a: number array `[..., m, n]`; k is the smaller of m and n.
      mode: "reduced" (Q `[..., m, k]`, R `[..., k, n]`), "complete" (Q `[..., m, m]`, R `[..., m, n]`), "r" (R
        alone, as in "reduced") or "raw" (what `lax.linalg.geqrf` gives, its matrix transposed).
    Returns:
      `QRResult(Q, R)`, or R alone for "r"; float or complex; half precision is computed in float32, integers and
      booleans in float. The diagonal of R may be negative.
    Raises:
      ValueError: `a` has fewer than two axes, or `mode` is another word.
      TypeError: `a` is neither an array nor a number.

    Derivative: of all modes but "raw".
    Source: meaning of `numpy.linalg.qr`.

    >>> qr(np.array([[3., 1.], [4., 2.]]), "r").round(3)
    Array([[-5. , -2.2],
           [ 0. ,  0.4]], dtype=float32)
    """
    a = to_matrices("qr", a)
    if mode == "raw":
        packed, taus = _linalg.geqrf(a)
        return QRResult(layout.matrix_transpose(packed), taus)
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode must be 'reduced', 'complete', 'r' or 'raw'; got {mode!r}")
    q, r = _linalg.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@public_api("full_matrices", "compute_uv", "hermitian", "subset_by_index")
def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
        subset_by_index: tuple[int, int] | None = None) -> Any:
    """The singular value decomposition `a = U diag(S) Vh`, singular values descending.

    Args:
      a: number array `[..., m, n]`; k is the smaller of m and n.
      full_matrices: U is `[..., m, m]` and Vh `[..., n, n]`; where False, `[..., m, k]` and `[..., k, n]`.
      compute_uv: give U and Vh too; where False, S alone.
      hermitian: `a` is Hermitian: its eigenvalues are computed instead.
      subset_by_index: `(first, last)`: singular values first, ..., last - 1 alone; None for all. Needs
        `full_matrices=False`.
    Returns:
      `SVDResult(U, S, Vh)`, or S `[..., k]` alone; S is real; half precision is computed in float32, integers and
      booleans in float.
    Raises:
      ValueError: `a` has fewer than two axes, is not square although `hermitian`, or `subset_by_index` is not
        within 0, ..., k or comes with `full_matrices`.
      TypeError: `a` is neither an array nor a number.
      NotImplementedError: both `hermitian` and `subset_by_index` are given.

    Derivative: where singular values are equal, that of U and Vh is NaN unless the result does not depend on their
      vectors; that of S alone is not.
    Source: meaning of `numpy.linalg.svd`; LAPACK `gesdd` on the CPU.

    >>> svd(np.array([[0., 2.], [1., 0.]])).S
    Array([2., 1.], dtype=float32)
    """
    a = to_matrices("svd", a, square=hermitian)
    if not hermitian:
        made = _linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
        return SVDResult(*made) if compute_uv else made
    if subset_by_index is not None:
        raise NotImplementedError("svd: subset_by_index is not available with hermitian=True")
    v, w = _linalg.eigh(a)
    size = ufuncs.abs(w)
    _, order = lax.sort_key_val(lax.neg(size), lax.broadcasted_iota(_I32, typeof(w).shape, len(typeof(w).shape) - 1))
    s = take_along_axis(size, order, -1)
    if not compute_uv:
        return s
    v = take_along_axis(v, layout.expand_dims(order, -2), -1)
    sign = choose_by(special.signbit(take_along_axis(w, order, -1)), literal(-1, typeof(s).dtype),
                          literal(1, typeof(s).dtype))
    return SVDResult(v, s, adjoint(ufuncs.multiply(v, layout.expand_dims(sign, -2))))


@public_api()
def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices, descending.

    Args:
      x: number array `[..., m, n]`; k is the smaller of m and n.
    Returns:
      Real array `[..., k]`, in the units of `x`; half precision is computed in float32, integers and booleans in
      float.
    Raises:
      ValueError: `x` has fewer than two axes.
      TypeError: `x` is neither an array nor a number.

    Source: meaning of `numpy.linalg.svdvals`.

    >>> svdvals(np.array([[0., 2.], [1., 0.]]))
    Array([2., 1.], dtype=float32)
    """
    return svd(x, False, False)


@public_api("UPLO", "symmetrize_input", entries=_DECOMPOSITION)
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors, in columns, of Hermitian matrices.

    Args: {a, UPLO, symmetrize_input}
    Returns:
      `EighResult(eigenvalues, eigenvectors)`: real `[..., n]`, in the units of `a`, and `[..., n, n]`, of length 1;
      half precision is computed in float32, integers and booleans in float.
    Raises:
      ValueError: `a` has fewer than two axes, or its last two differ in length.
      ValueError: `UPLO` is another word.
      TypeError: `a` is neither an array nor a number.

    Derivative: where eigenvalues are equal, that of the eigenvectors is NaN unless the result does not depend on
      theirs.
    Source: meaning of `numpy.linalg.eigh`; LAPACK `syevd` on the CPU.

    >>> eigh(np.array([[2., 1.], [1., 2.]])).eigenvalues.round(3)
    Array([1., 3.], dtype=float32)
    """
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"eigh: UPLO must be 'L', 'U' or None; got {UPLO!r}")
    v, w = _linalg.eigh(to_matrices("eigh", a, square=True), lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@public_api("UPLO", "symmetrize_input", entries=_DECOMPOSITION)
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The eigenvalues of Hermitian matrices, ascending.

    Args: {a, UPLO, symmetrize_input}
    Returns:
      Real array `[..., n]`, in the units of `a`; half precision is computed in float32, integers and booleans in
      float.
    Raises:
      ValueError: `a` has fewer than two axes, or its last two differ in length.
      ValueError: `UPLO` is another word.
      TypeError: `a` is neither an array nor a number.

    Source: meaning of `numpy.linalg.eigvalsh`.

    >>> eigvalsh(np.array([[2., 1.], [1., 2.]])).round(3)
    Array([1., 3.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


@public_api(entries=_DECOMPOSITION)
def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and right eigenvectors, in columns, of square matrices.

    Args: {a}
    Returns:
      `EigResult(eigenvalues, eigenvectors)`: complex `[..., n]`, in the units of `a` and in no certain order, and
      complex `[..., n, n]`, of length 1; half precision is computed in float32, integers and booleans in float.
    Raises: {ValueError, TypeError}

    Source: meaning of `numpy.linalg.eig`, always complex; LAPACK `geev` on the CPU, the like of cuSOLVER on CUDA,
      nothing elsewhere.

    >>> eig(np.array([[0., -1.], [1., 0.]])).eigenvalues
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return EigResult(*_linalg.eig(to_matrices("eig", a, square=True), compute_left_eigenvectors=False))


@public_api(entries=_DECOMPOSITION)
def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues of square matrices.

    Args: {a}
    Returns:
      Complex array `[..., n]`, in the units of `a` and in no certain order; half precision is computed in float32,
      integers and booleans in float.
    Raises: {ValueError, TypeError}

    Source: meaning of `numpy.linalg.eigvals`, always complex; LAPACK `geev` on the CPU, the like of cuSOLVER on
      CUDA, nothing elsewhere.

    >>> eigvals(np.array([[0., -1.], [1., 0.]]))
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return _linalg.eig(to_matrices("eigvals", a, square=True), compute_left_eigenvectors=False,
                       compute_right_eigenvectors=False)[0]
