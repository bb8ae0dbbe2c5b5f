"""Random matrices for factorizations and solves: well conditioned, with separate eigenvalues and singular values."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from drawing import WIDE, Draw
from lamina_ir import Primitive
from lamina_ir.testing.samples import Sample

__all__ = ["FAMILY"]

Shape = tuple[int, ...]


def number(d: Draw) -> np.dtype:
    return np.dtype(d.pick(("float64", "complex128") if d.kinds is WIDE else (
        "float32", "complex64", "float64", "complex128")))


def length(d: Draw) -> int:
    return d.pick((2, 3, 1, 4, 0))


def noise(d: Draw, shape: Shape, dtype: np.dtype) -> np.ndarray:
    x = d.rng.uniform(-1, 1, shape)
    return (x + 1j * d.rng.uniform(-1, 1, shape) if dtype.kind == "c" else x).astype(dtype)


def orthogonal(d: Draw, batch: Shape, n: int, dtype: np.dtype) -> np.ndarray:
    """Return orthogonal matrices, exact to the wide dtype."""
    return np.linalg.qr(noise(d, (*batch, n, n), np.dtype("complex128" if dtype.kind == "c" else "float64")))[0]


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def separate_singular_values(d: Draw, batch: Shape, m: int, n: int, dtype: np.dtype) -> np.ndarray:
    """Return matrices with singular values 1, 2, 3, ... times one number."""
    k = min(m, n)
    u, v = orthogonal(d, batch, m, dtype)[..., :k], orthogonal(d, batch, n, dtype)[..., :k]
    return ((u * np.arange(1.0, k + 1) * d.rng.uniform(0.5, 1)) @ adjoint(v)).astype(dtype)


def hermitian(d: Draw, batch: Shape, n: int, dtype: np.dtype, low: float) -> np.ndarray:
    """Return Hermitian matrices with eigenvalues from `low` upwards in steps of one."""
    q = orthogonal(d, batch, n, dtype)
    return ((q * (low + np.arange(n))) @ adjoint(q)).astype(dtype)


def separate_eigenvalues(d: Draw, batch: Shape, n: int, dtype: np.dtype) -> np.ndarray:
    """Return matrices with separate eigenvalues; of some real matrices two are a complex pair."""
    x = np.diag(2.0 * np.arange(1, n + 1)) + 0.3 * noise(d, (*batch, n, n), dtype)
    if n > 1 and d.flag():
        x[..., 0, 1], x[..., 1, 0] = 3, -3
    return x.astype(dtype)


def square(d: Draw, make: Callable[..., np.ndarray], *more: Any) -> np.ndarray:
    return make(d, d.shape(0, 2), length(d), number(d), *more)


def rectangle(d: Draw) -> np.ndarray:
    return separate_singular_values(d, d.shape(0, 2), length(d), length(d), number(d))


def flags(d: Draw, *names: str) -> dict[str, bool]:
    return {name: d.flag() for name in names}


def householder_product(d: Draw) -> tuple[Any, ...]:
    batch, m, dtype = d.shape(0, 2), length(d), number(d)
    n = d.int(0, m)
    return (noise(d, (*batch, m, n), dtype), noise(d, (*batch, d.int(0, n)), dtype)), {}


def lu_pivots_to_permutation(d: Draw) -> tuple[Any, ...]:
    size, batch = length(d), d.shape(0, 2)
    k = d.int(0, size)
    pivots = d.rng.integers(np.arange(k), size, (*batch, k)) if size else np.zeros((*batch, 0))
    return (pivots.astype(np.int32),), {"permutation_size": size}


def pivoted_qr(d: Draw) -> tuple[Any, ...]:
    """Columns have different lengths, so that pivots are unique."""
    x, params = rectangle(d), flags(d, "full_matrices", "pivoting")
    if params["pivoting"]:
        q = orthogonal(d, x.shape[:-2], x.shape[-2], x.dtype)
        x = noise(d, x.shape, x.dtype) * 0.1
        k = min(x.shape[-2:])
        x[..., :k] += q[..., :k] * np.arange(1, k + 1)
        x = x[..., d.rng.permutation(x.shape[-1])].astype(x.dtype)
    return (x,), params


def triangular_solve(d: Draw) -> tuple[Any, ...]:
    batch, n, k, dtype = d.shape(0, 2), length(d), length(d), number(d)
    params = flags(d, "left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    a = 0.4 * noise(d, (*batch, n, n), dtype) + 2 * np.eye(n)
    return (a.astype(dtype), noise(d, (*batch, *((n, k) if params["left_side"] else (k, n))), dtype)), params


def solve(d: Draw) -> tuple[Any, ...]:
    a = square(d, separate_eigenvalues)
    return (a, noise(d, (*a.shape[:-1], length(d)), a.dtype)), {}


def tridiagonal_solve(d: Draw) -> tuple[Any, ...]:
    batch, n, dtype = d.shape(0, 2), length(d), number(d)
    low, middle, high = (noise(d, (*batch, n), dtype) for _ in range(3))
    return (low, (middle + 4).astype(dtype), high, noise(d, (*batch, n, length(d)), dtype)), {}


def without_params(make: Callable[..., np.ndarray], *more: Any) -> Callable[[Draw], tuple[Any, ...]]:
    return lambda d: ((square(d, make, *more),), {})


def with_flags(make: Callable[[Draw], np.ndarray], *names: str) -> Callable[[Draw], tuple[Any, ...]]:
    return lambda d: ((make(d),), flags(d, *names))


DRAWN: dict[str, Callable[[Draw], tuple[Any, ...]]] = {
    "cholesky": without_params(hermitian, 0.7),
    "eigh": with_flags(lambda d: square(d, hermitian, -1.3), "lower"),
    "eig": with_flags(lambda d: square(d, separate_eigenvalues), "compute_left_eigenvectors", "compute_right_eigenvectors"),
    "schur": with_flags(lambda d: square(d, separate_eigenvalues), "compute_schur_vectors"),
    "hessenberg": without_params(separate_eigenvalues),
    "tridiagonal": with_flags(lambda d: square(d, hermitian, -1.3), "lower"),
    "lu": with_flags(rectangle), "geqrf": with_flags(rectangle), "qr": pivoted_qr,
    "slogdet": without_params(separate_eigenvalues), "solve": solve,
    "svd": with_flags(rectangle, "compute_uv", "full_matrices"),
    "householder_product": householder_product, "lu_pivots_to_permutation": lu_pivots_to_permutation,
    "triangular_solve": triangular_solve, "tridiagonal_solve": tridiagonal_solve}


def factorizations(d: Draw, prim: Primitive) -> Sample:
    args, params = DRAWN[prim.name](d)
    return Sample(prim, args, params)


FAMILY: dict[str, Callable[[Draw, Primitive], Sample]] = {"factorizations": factorizations}
