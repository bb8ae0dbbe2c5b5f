"""Matrix factorisations, the second part of `numpy.linalg`; each is a call of `lax.linalg`.

Matrices stand in the last two axes. A matrix without a factorisation (not positive definite) gives NaN, where NumPy
raises. What is computed with factors stands in `_solving.py` and `_determinants.py`.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof
from lamina_tracing.lax import factorizations as _linalg

from .._elementwise import special, ufuncs
from .._shape import layout
from .._ground.promotion import convert, literal, to_inexact
from .._ground.publishing import public
from .._ground.choosing import choose_by
from .._index.taking import take_along_axis

__all__ = ["cholesky", "eig", "eigh", "EighResult", "EigResult", "eigvals", "eigvalsh", "qr", "QRResult", "svd",
           "SVDResult", "svdvals"]

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


def matrices(call: str, a: Any, square: bool = False) -> Any:
    """`a` in a float dtype that factorisations have: half precision goes through float32."""
    a = to_inexact(call, a)
    t = typeof(a)
    if len(t.shape) < 2:
        raise ValueError(f"{call}: expected matrices in the last two axes; got {t.long()}")
    if square and t.shape[-1] != t.shape[-2]:
        raise ValueError(f"{call}: expected square matrices in the last two axes; got {t.long()}")
    return convert(a, np.dtype("float32")) if t.dtype.itemsize < 4 else a


def adjoint(x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return ufuncs.conj(layout.matrix_transpose(x))


@public("upper", "symmetrize_input")
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with `a = L L^H`; with `upper` its conjugate transpose. NaN if not positive definite.

    >>> cholesky(np.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    a = matrices("cholesky", a, square=True)
    out = _linalg.cholesky(adjoint(a) if upper and not symmetrize_input else a, symmetrize_input=symmetrize_input)
    return adjoint(out) if upper else out


@public("mode")
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """`a = Q R`, Q with orthonormal columns and R upper triangular.

    Args:
      a: numbers `[..., m, n]`.
      mode: "reduced" (Q has min(m, n) columns), "complete" (Q is square), "r" (R alone), "raw" (what `lax.linalg.geqrf`
        gives, its matrix transposed).
    """
    a = matrices("qr", a)
    if mode == "raw":
        packed, taus = _linalg.geqrf(a)
        return QRResult(layout.matrix_transpose(packed), taus)
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode must be 'reduced', 'complete', 'r' or 'raw'; got {mode!r}")
    q, r = _linalg.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@public("full_matrices", "compute_uv", "hermitian", "subset_by_index")
def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
        subset_by_index: tuple[int, int] | None = None) -> Any:
    """`a = U diag(S) Vh`, singular values descending.

    Args:
      a: numbers `[..., m, n]`.
      full_matrices: U and Vh are square.
      compute_uv: give U and Vh too; else S alone.
      hermitian: `a` is Hermitian: its eigenvalues are computed, which is faster.
      subset_by_index: `(first, last)`: these singular values alone; needs `full_matrices=False`.
    """
    a = matrices("svd", a, square=hermitian)
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


@public()
def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices, descending."""
    return svd(x, False, False)


@public("UPLO", "symmetrize_input")
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors, in columns, of Hermitian matrices.

    Args:
      a: numbers `[..., n, n]`.
      UPLO: which triangle to read, "L" or "U"; needs `symmetrize_input=False` to make a difference.
      symmetrize_input: take `(a + a^H) / 2`.
    """
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"eigh: UPLO must be 'L', 'U' or None; got {UPLO!r}")
    v, w = _linalg.eigh(matrices("eigh", a, square=True), lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@public("UPLO", "symmetrize_input")
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The eigenvalues of Hermitian matrices, ascending."""
    return eigh(a, UPLO, symmetrize_input).eigenvalues


@public()
def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and right eigenvectors, in columns, of square matrices; complex. CPU only."""
    return EigResult(*_linalg.eig(matrices("eig", a, square=True), compute_left_eigenvectors=False))


@public()
def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues of square matrices; complex. CPU only."""
    return _linalg.eig(matrices("eigvals", a, square=True), compute_left_eigenvectors=False,
                       compute_right_eigenvectors=False)[0]
