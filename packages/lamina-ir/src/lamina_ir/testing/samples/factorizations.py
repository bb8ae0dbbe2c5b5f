"""Samples of the matrix factorizations and solves, and comparisons for results that are not unique.

Eigenvectors and singular vectors are unique up to a factor of absolute value one, and Schur forms up to the order of the
eigenvalues. Tests compare products in which these choices cancel.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ..._types import dtypes
from ... import prims as p
from ..sampling import complexes, register_canonicalizer, floats, sample

_EIG = {"compute_left_eigenvectors": True, "compute_right_eigenvectors": True}


def _drawn(n, dtype, kind, *batch, seed=0):
    """Return a well conditioned matrix: `positive` definite, or `spread`, with well separated eigenvalues."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(*batch, n, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=x.shape)
    steps = np.diag(np.arange(1.0, n + 1))
    x = x @ np.conj(np.swapaxes(x, -1, -2)) / n + steps if kind == "positive" else 0.3 * x + 2 * steps
    return x.astype(dtype)


def _pair(n, columns, dtype="float32", *batch, left=True) -> tuple[Any, Any]:
    """Declare a sample of a triangular system, with the right-hand sides on either side."""
    return _drawn(n, dtype, "spread", *batch), (complexes if np.dtype(dtype).kind == "c" else floats)(
        *batch, *((n, columns) if left else (columns, n)), dtype=dtype)


def _solve(a, b, left_side=True, lower=True, transpose_a=False, conjugate_a=False, unit_diagonal=False):
    sample(p.triangular_solve_p, a, b, left_side=left_side, lower=lower, transpose_a=transpose_a,
           conjugate_a=conjugate_a, unit_diagonal=unit_diagonal)


for _dtype in ("float32", "complex64"):
    _of = complexes if _dtype == "complex64" else floats
    sample(p.cholesky_p, _drawn(4, _dtype, "positive"))
    sample(p.cholesky_p, _drawn(3, _dtype, "positive", 2))
    for _shape in ((3, 3), (4, 2), (2, 4), (2, 3, 3)):
        sample(p.lu_p, _of(*_shape, dtype=_dtype))
        sample(p.geqrf_p, _of(*_shape, dtype=_dtype))
        sample(p.qr_p, _of(*_shape, dtype=_dtype), full_matrices=False, pivoting=False)
        sample(p.qr_p, _of(*_shape, dtype=_dtype), full_matrices=True, pivoting=False)
        sample(p.svd_p, _of(*_shape, dtype=_dtype), full_matrices=False, compute_uv=True)
        sample(p.svd_p, _of(*_shape, dtype=_dtype), full_matrices=True, compute_uv=True)
    sample(p.qr_p, _of(3, 2, dtype=_dtype), full_matrices=False, pivoting=True)
    sample(p.qr_p, _of(3, 4, dtype=_dtype), full_matrices=True, pivoting=True)
    sample(p.svd_p, _of(3, 2, dtype=_dtype), full_matrices=False, compute_uv=False)
    sample(p.householder_product_p, _of(4, 3, dtype=_dtype), _of(3, dtype=_dtype))
    sample(p.householder_product_p, _of(2, 3, 3, dtype=_dtype), _of(2, 2, dtype=_dtype))
    sample(p.eigh_p, _drawn(4, _dtype, "spread"), lower=True)
    sample(p.eigh_p, _drawn(3, _dtype, "spread", 2), lower=False)
    sample(p.eig_p, _drawn(4, _dtype, "spread"), **_EIG)
    sample(p.eig_p, _drawn(3, _dtype, "spread", 2), compute_left_eigenvectors=False, compute_right_eigenvectors=True)
    sample(p.eig_p, _drawn(3, _dtype, "spread"), compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    sample(p.solve_p, *_pair(3, 2, _dtype))
    sample(p.solve_p, *_pair(3, 1, _dtype, 2))
    sample(p.slogdet_p, _drawn(4, _dtype, "spread"))
    sample(p.slogdet_p, -_drawn(3, _dtype, "spread", 2))
    _solve(*_pair(3, 2, _dtype))
    _solve(*_pair(3, 2, _dtype, left=False), left_side=False, lower=False, transpose_a=True, conjugate_a=True)
    _solve(*_pair(3, 1, _dtype, 2), lower=False, unit_diagonal=True)
    _solve(*_pair(2, 3, _dtype, left=False), left_side=False, conjugate_a=True)
    _solve(*_pair(3, 2, _dtype), transpose_a=True)
    sample(p.tridiagonal_solve_p, _of(4, dtype=_dtype), np.full(4, 4, _dtype), _of(4, dtype=_dtype),
           _of(4, 2, dtype=_dtype))
    sample(p.tridiagonal_solve_p, _of(2, 3, dtype=_dtype), np.full((2, 3), -5, _dtype), _of(2, 3, dtype=_dtype),
           _of(2, 3, 1, dtype=_dtype))
    sample(p.hessenberg_p, _of(4, 4, dtype=_dtype))
    sample(p.hessenberg_p, _of(2, 3, 3, dtype=_dtype))
    sample(p.tridiagonal_p, _of(4, 4, dtype=_dtype), lower=True)
    sample(p.tridiagonal_p, _of(2, 4, 4, dtype=_dtype), lower=False)
    sample(p.schur_p, _of(4, 4, dtype=_dtype), compute_schur_vectors=True)
    sample(p.schur_p, _of(2, 3, 3, dtype=_dtype), compute_schur_vectors=False)
sample(p.eig_p, np.array([[1, 3, 0], [-3, 1, 0.5], [0, 0.2, 5]], np.float32), **_EIG)
sample(p.cholesky_p, np.array([[1, 2], [2, 1]], np.float32))
for _prim, _params in ((p.cholesky_p, {}), (p.lu_p, {}), (p.eigh_p, {"lower": True}), (p.eig_p, _EIG),
                       (p.svd_p, {"full_matrices": True, "compute_uv": True}),
                       (p.qr_p, {"full_matrices": True, "pivoting": False})):
    sample(_prim, floats(0, 0), **_params)
    sample(_prim, floats(2, 1, 1), **_params)
sample(p.solve_p, floats(0, 0), floats(0, 2))
sample(p.slogdet_p, np.array([[1, 2], [2, 4]], np.float32))
sample(p.slogdet_p, floats(2, 0, 0))
sample(p.svd_p, floats(2, 0), full_matrices=True, compute_uv=True)
sample(p.qr_p, floats(2, 0), full_matrices=True, pivoting=False)
sample(p.lu_pivots_to_permutation_p, np.array([2, 1, 3], np.int32), permutation_size=4)
sample(p.lu_pivots_to_permutation_p, np.array([[1, 1], [0, 2]], np.int32), permutation_size=3)


# --- comparison of results that are not unique ------------------------------------------------------------------------
def _ndim(x):
    return len(x.shape)


def _product(bind, a, b, flip=False):
    """Return a b, or a b^H, for stacks of matrices."""
    n = _ndim(a)
    batch = tuple(range(n - 2))
    if flip and dtypes.is_complex(b.dtype):
        b = bind(p.conj_p, b)
    return bind(p.dot_general_p, a, b, dimension_numbers=(((n - 1,), (n - 1 if flip else n - 2,)), (batch, batch)),
                precision=None, preferred_element_type=None)


def _scaled(bind, v, w):
    """Scale the columns of v by the entries of w."""
    wide = bind(p.broadcast_in_dim_p, w, shape=tuple(v.shape), broadcast_dimensions=(*range(_ndim(v) - 2), _ndim(v) - 1))
    if wide.dtype != v.dtype:
        wide = bind(p.convert_element_type_p, wide, new_dtype=v.dtype, weak_type=False)
    return bind(p.mul_p, v, wide)


def _weights(v, k=None):
    """Return weights 1, 2, 3, ... that distinguish columns. Beyond column k they are equal, since only the space that
    those columns span is unique."""
    n = v.shape[-1]
    row = np.minimum(np.arange(1, n + 1), n if k is None else k + 1)
    return np.broadcast_to(row, (*v.shape[:-2], n)).astype(v.dtype)


def _spectral(bind, v, w):
    return _product(bind, _scaled(bind, v, w), v, flip=True)


def _of_eigh(bind, v, w):
    return [w, _spectral(bind, v, _weights(v))]


def _of_eig(bind, w, *vectors):
    """Return sums over all eigenvalues, which do not depend on their order."""
    axis = (_ndim(w) - 1,)
    sums = [bind(p.reduce_sum_p, x, axes=axis) for x in (w, bind(p.mul_p, w, w))]
    return sums + [_spectral(bind, v, w) for v in vectors]


def _of_svd(bind, s, *uv):
    if not uv:
        return [s]
    u, vh = uv
    k = s.shape[-1]
    return [s, _spectral(bind, u, _weights(u, k)), _product(bind, _scaled(bind, _head(bind, u, k, -1), _weights(u)[..., :k]),
                                                            _head(bind, vh, k, -2)),
            _spectral(bind, _adjoint(bind, vh), _weights(_adjoint(bind, vh), k))]


def _head(bind, x, k, axis):
    limit = list(x.shape)
    limit[axis] = k
    return bind(p.slice_p, x, start_indices=(0,) * _ndim(x), limit_indices=tuple(limit), strides=None)


def _adjoint(bind, x):
    n = _ndim(x)
    x = bind(p.transpose_p, x, permutation=(*range(n - 2), n - 1, n - 2))
    return bind(p.conj_p, x) if dtypes.is_complex(x.dtype) else x


def _of_qr(bind, q, r, *order):
    """Compare Q and R. Of the columns of Q beyond those of the matrix only the space they span is unique."""
    k = r.shape[-1]
    if q.shape[-1] <= k:
        return [q, r, *order]
    return [_head(bind, q, k, -1), _spectral(bind, q, _weights(q)[..., :1] + 0 * _weights(q)), r, *order]


def _of_schur(bind, t, *q):
    square = _product(bind, t, t)
    traces = []
    for x in (t, square):
        eye = np.broadcast_to(np.eye(x.shape[-1]), x.shape).astype(x.dtype)
        traces.append(bind(p.reduce_sum_p, bind(p.mul_p, x, eye), axes=(_ndim(x) - 2, _ndim(x) - 1)))
    depth = -1 if dtypes.is_complex(t.dtype) else -2
    below = np.broadcast_to(np.tril(np.ones(x.shape[-2:]), depth), t.shape).astype(t.dtype)
    out = [*traces, bind(p.mul_p, t, below)]
    for v in q:
        out += [_product(bind, _product(bind, v, t), v, flip=True), _product(bind, v, v, flip=True)]
    return out


register_canonicalizer(p.eigh_p, _of_eigh)
register_canonicalizer(p.eig_p, _of_eig)
register_canonicalizer(p.svd_p, _of_svd)
register_canonicalizer(p.qr_p, _of_qr)
register_canonicalizer(p.schur_p, _of_schur)
