"""Matrix factorizations, and triangular and tridiagonal solves. All axes except the last two are batch axes.

The NumPy implementations are in `_numpy/matrices.py`. If a matrix has no result (not positive definite, no
convergence), the result is NaN. The user-facing functions are in `lamina_tracing.lax.factorizations`, known as
`lax.linalg`.
"""
from __future__ import annotations


import numpy as np

from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._core.primitive import Primitive
from ._numpy import matrices as _m
from ..typing import Function, ParamValue
from .._typing import Avals

__all__ = ["cholesky_p", "eig_p", "eigh_p", "geqrf_p", "hessenberg_p", "householder_product_p",
           "lu_p", "lu_pivots_to_permutation_p", "qr_p", "schur_p", "slogdet_p", "solve_p", "svd_p", "triangular_solve_p",
           "tridiagonal_p", "tridiagonal_solve_p"]

_DTYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))
_I32 = np.dtype("int32")


def _check(op: str, x: ShapedArray, square: bool = False, least: int = 2) -> tuple[tuple[int, ...], int, int]:
    """Check a matrix operand and return (batch shape, rows, columns); errors name the primitive."""
    if x.dtype not in _DTYPES:
        raise DTypeError(f"{op}: operands must be float32, float64, complex64 or complex128; got {x.str_long()}. Convert "
                         "with lax.convert_element_type")
    if len(x.shape) < least:
        raise ShapeError(f"{op}: expected {'matrices in the last two axes' if least == 2 else 'at least one axis'}; "
                         f"got {x.str_long()}")
    m, n = x.shape[-2:] if least == 2 else (x.shape[-1], 1)
    if square and m != n:
        raise ShapeError(f"{op}: expected square matrices in the last two axes; got {x.str_long()}")
    return x.shape[:-2] if least == 2 else x.shape[:-1], m, n


def _check_same_dtype(op: str, first: ShapedArray, others: dict[str, ShapedArray]) -> None:
    for name, x in others.items():
        if x.dtype != first.dtype:
            raise DTypeError(f"{op}: operands must have one dtype; got {first.str_long()} and {name} {x.str_long()}")


def _real(x: ShapedArray) -> np.dtype:
    return dtypes.real_dtype(x.dtype)


def _cholesky_infer(x: ShapedArray) -> ShapedArray:
    _check("cholesky", x, square=True)
    return x


def _lu_infer(x: ShapedArray) -> tuple[ShapedArray, ...]:
    batch, m, n = _check("lu", x)
    return x, shaped((*batch, min(m, n)), _I32), shaped((*batch, m), _I32)


def _permutation_infer(pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
    if not dtypes.is_integer(pivots.dtype) or not pivots.shape:
        raise DTypeError(f"lu_pivots_to_permutation: pivots must be vectors of integers; got {pivots.str_long()}")
    if permutation_size < pivots.shape[-1]:
        raise ShapeError(f"lu_pivots_to_permutation: permutation_size {permutation_size} is smaller than the number of "
                         f"pivots in {pivots.str_long()}")
    return shaped((*pivots.shape[:-1], permutation_size), _I32)


def _geqrf_infer(x: ShapedArray) -> tuple[ShapedArray, ...]:
    batch, m, n = _check("geqrf", x)
    return x, shaped((*batch, min(m, n)), x.dtype)


def _householder_product_infer(a: ShapedArray, taus: ShapedArray) -> ShapedArray:
    batch, m, n = _check("householder_product", a)
    tau_batch, k, _ = _check("householder_product", taus, least=1)
    _check_same_dtype("householder_product", a, {"taus": taus})
    if m < n or k > n or batch != tau_batch:
        raise ShapeError("householder_product: expected a [..., m, n] with m >= n and taus [..., k] with k <= n; got a "
                         f"{a.str_long()}, taus {taus.str_long()}")
    return a


def _qr_infer(x: ShapedArray, *, full_matrices: bool, pivoting: bool) -> tuple[ShapedArray, ...]:
    batch, m, n = _check("qr", x)
    k = m if full_matrices else min(m, n)
    made = shaped((*batch, m, k), x.dtype), shaped((*batch, k, n), x.dtype)
    return (*made, shaped((*batch, n), _I32)) if pivoting else made


def _eigh_infer(x: ShapedArray, *, lower: bool) -> tuple[ShapedArray, ...]:
    batch, n, _ = _check("eigh", x, square=True)
    return x, shaped((*batch, n), _real(x))


def _eig_infer(x: ShapedArray, *, compute_left_eigenvectors: bool,
               compute_right_eigenvectors: bool) -> tuple[ShapedArray, ...]:
    batch, n, _ = _check("eig", x, square=True)
    dtype = dtypes.complex_dtype(x.dtype)
    vectors = (shaped((*batch, n, n), dtype),) * (bool(compute_left_eigenvectors) + bool(compute_right_eigenvectors))
    return shaped((*batch, n), dtype), *vectors


def _svd_infer(x: ShapedArray, *, full_matrices: bool, compute_uv: bool) -> tuple[ShapedArray, ...]:
    batch, m, n = _check("svd", x)
    k = min(m, n)
    s = shaped((*batch, k), _real(x))
    if not compute_uv:
        return (s,)
    return (s, shaped((*batch, m, m if full_matrices else k), x.dtype),
            shaped((*batch, n if full_matrices else k, n), x.dtype))


def _solve_infer(a: ShapedArray, b: ShapedArray) -> ShapedArray:
    batch, n, _ = _check("solve", a, square=True)
    b_batch, rows, _ = _check("solve", b)
    _check_same_dtype("solve", a, {"b": b})
    if batch != b_batch or n != rows:
        raise ShapeError(f"solve: expected a [..., n, n] and b [..., n, k]; got a {a.str_long()}, b {b.str_long()}")
    return b


def _slogdet_infer(x: ShapedArray) -> tuple[ShapedArray, ...]:
    batch, _, _ = _check("slogdet", x, square=True)
    return shaped(batch, x.dtype), shaped(batch, _real(x))


def _triangular_solve_infer(a: ShapedArray, b: ShapedArray, *, left_side: bool, lower: bool, transpose_a: bool,
                            conjugate_a: bool, unit_diagonal: bool) -> ShapedArray:
    batch, n, _ = _check("triangular_solve", a, square=True)
    b_batch, rows, columns = _check("triangular_solve", b)
    _check_same_dtype("triangular_solve", a, {"b": b})
    if batch != b_batch or n != (rows if left_side else columns):
        # StableHLO triangular_solve C3
        raise ShapeError(f"triangular_solve: expected a [..., n, n] and b [..., {'n, k' if left_side else 'k, n'}] with "
                         f"left_side={left_side}; got a {a.str_long()}, b {b.str_long()}")
    return b


def _tridiagonal_solve_infer(dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray) -> ShapedArray:
    op = "tridiagonal_solve"
    batch, n, _ = _check(op, d, least=1)
    b_batch, rows, _ = _check(op, b)
    _check_same_dtype(op, d, {"dl": dl, "du": du, "b": b})
    if dl.shape != d.shape or du.shape != d.shape or b_batch != batch or rows != n:
        raise ShapeError(f"{op}: expected dl, d, du [..., n] and b [..., n, k]; got dl {dl.str_long()}, d {d.str_long()}, du "
                         f"{du.str_long()}, b {b.str_long()}")
    return b


def _hessenberg_infer(x: ShapedArray) -> tuple[ShapedArray, ...]:
    batch, n, _ = _check("hessenberg", x, square=True)
    return x, shaped((*batch, max(n - 1, 0)), x.dtype)


def _tridiagonal_infer(x: ShapedArray, *, lower: bool) -> tuple[ShapedArray, ...]:
    batch, n, _ = _check("tridiagonal", x, square=True)
    k = max(n - 1, 0)
    return x, shaped((*batch, n), _real(x)), shaped((*batch, k), _real(x)), shaped((*batch, k), x.dtype)


def _schur_infer(x: ShapedArray, *, compute_schur_vectors: bool) -> tuple[ShapedArray, ...]:
    _check("schur", x, square=True)
    return (x, x) if compute_schur_vectors else (x,)


def _matrices(name: str, infer: Function, fun: Function, cores: tuple[int, ...] = (2,), spec: str = "",
              stacks: bool = True, **facts: ParamValue) -> Primitive:
    def infer_strong(*avals: ShapedArray, **params: ParamValue) -> Avals:
        return infer(*[a.strip_weak_type() for a in avals], **params)
    return Primitive(name, family="factorizations", infer=infer_strong, numpy=_m.per_matrix(infer, cores, fun, stacks),
                     spec=spec, **facts)


_EIG = ("compute_left_eigenvectors", "compute_right_eigenvectors")
_TRIANGULAR = ("conjugate_a", "left_side", "lower", "transpose_a", "unit_diagonal")

cholesky_p = _matrices("cholesky", _cholesky_infer, _m.cholesky, spec="cholesky")
lu_p = _matrices("lu", _lu_infer, _m.lu, multiple=True, spec="LAPACK getrf")
lu_pivots_to_permutation_p = _matrices("lu_pivots_to_permutation", _permutation_infer, _m.pivots_to_permutation, (1,),
                                       params=("permutation_size",), spec="LAPACK laswp")
geqrf_p = _matrices("geqrf", _geqrf_infer, _m.geqrf, multiple=True, spec="LAPACK geqrf")
householder_product_p = _matrices("householder_product", _householder_product_infer, _m.householder_product, (2, 1),
                                  spec="LAPACK orgqr")
qr_p = _matrices("qr", _qr_infer, _m.qr, params=("full_matrices", "pivoting"), multiple=True,
                 spec="LAPACK geqrf, geqp3, orgqr")
eigh_p = _matrices("eigh", _eigh_infer, _m.eigh, params=("lower",), multiple=True, spec="LAPACK syevd")
eig_p = _matrices("eig", _eig_infer, _m.eig, params=_EIG, multiple=True, spec="LAPACK geev")
svd_p = _matrices("svd", _svd_infer, _m.svd, params=("compute_uv", "full_matrices"), multiple=True,
                  spec="LAPACK gesdd")
solve_p = _matrices("solve", _solve_infer, _m.solve, (2, 2), linear_in=(1,), spec="LAPACK gesv")
slogdet_p = _matrices("slogdet", _slogdet_infer, _m.slogdet, multiple=True, spec="LAPACK getrf")
triangular_solve_p = _matrices("triangular_solve", _triangular_solve_infer, _m.triangular_solve, (2, 2),
                               params=_TRIANGULAR, linear_in=(1,), spec="triangular_solve")
tridiagonal_solve_p = _matrices("tridiagonal_solve", _tridiagonal_solve_infer, _m.tridiagonal_solve, (1, 1, 1, 2),
                                linear_in=(3,), spec="LAPACK gtsv")
hessenberg_p = _matrices("hessenberg", _hessenberg_infer, _m.hessenberg, stacks=False, multiple=True,
                         spec="LAPACK gehrd")
tridiagonal_p = _matrices("tridiagonal", _tridiagonal_infer, _m.tridiagonal, stacks=False, params=("lower",),
                          multiple=True, spec="LAPACK sytrd")
schur_p = _matrices("schur", _schur_infer, _m.schur, stacks=False, params=("compute_schur_vectors",),
                    multiple=True, spec="LAPACK gees")
