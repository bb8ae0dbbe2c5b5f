"""Factorizations and solves, tested by their defining equations, independent of sign and order."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import evaluate_primitive, prims
from lamina_ir.testing.samples import samples_of

TOL = dict(rtol=2e-4, atol=2e-4)


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def wide(*xs: Any) -> list[Any]:
    return [np.asarray(x).astype(np.complex128 if np.iscomplexobj(x) else np.float64 if x.dtype.kind == "f" else x.dtype)
            for x in xs]


def results(sample: Any) -> list[Any]:
    out = evaluate_primitive(sample.prim, sample.args, sample.params)
    return wide(*(out if sample.prim.multiple else (out,)))


def cases(*names: str) -> Any:
    found = [s for name in names for s in samples_of(getattr(prims, f"{name}_p"))
             if all(np.isfinite(a).all() for a in s.args if a.dtype.kind in "fc") and all(a.size for a in s.args)]
    assert found, names
    return pytest.mark.parametrize("sample", found, ids=lambda s: s.id)


def orthonormal(q: Any) -> None:
    np.testing.assert_allclose(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *[q.shape[-1]] * 2)), **TOL)


def of_one_half(a: Any, lower: bool = True) -> Any:
    """Return the Hermitian matrix with this lower or upper half."""
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    return half + adjoint(half) + np.real(np.diagonal(a, axis1=-2, axis2=-1))[..., None] * np.eye(a.shape[-1])


def positive(a: Any) -> bool:
    """Return whether the symmetric matrix with this lower half is positive definite."""
    return bool((np.linalg.eigvalsh(a) > 1e-6).all())


@cases("cholesky")
def test_cholesky_factor_is_lower_triangular_square_root(sample):
    a = of_one_half(*wide(*sample.args))
    lower, = results(sample)
    if positive(a):
        np.testing.assert_allclose(lower @ adjoint(lower), a, **TOL)
        np.testing.assert_array_equal(lower, np.tril(lower))
        assert (np.real(np.diagonal(lower, axis1=-2, axis2=-1)) > 0).all()
    else:
        assert np.isnan(lower).any()


@cases("eigh")
def test_eigh_has_orthonormal_vectors_and_ascending_values(sample):
    a = of_one_half(*wide(*sample.args), sample.params["lower"])
    vectors, values = sorted(results(sample), key=np.ndim, reverse=True)
    np.testing.assert_allclose(a @ vectors, vectors * values[..., None, :], **TOL)
    orthonormal(vectors)
    assert (np.diff(values, axis=-1) >= -1e-5).all()


@cases("eig")
def test_eig_vectors_satisfy_eigenvalue_equation(sample):
    a, = wide(*sample.args)
    values, *vectors = results(sample)
    np.testing.assert_allclose(values.sum(-1), np.trace(a, axis1=-2, axis2=-1), **TOL)
    np.testing.assert_allclose(np.prod(values, -1), np.linalg.det(a), **TOL)
    if sample.params["compute_left_eigenvectors"]:
        left = vectors.pop(0)
        np.testing.assert_allclose(adjoint(left) @ a, values[..., None] * adjoint(left), **TOL)
    if sample.params["compute_right_eigenvectors"]:
        right = vectors.pop(0)
        np.testing.assert_allclose(a @ right, right * values[..., None, :], **TOL)


@cases("svd")
def test_svd_factors_multiply_to_matrix(sample):
    a, = wide(*sample.args)
    values, *rest = results(sample)
    assert (values >= 0).all() and (np.diff(values, axis=-1) <= 1e-5).all()
    np.testing.assert_allclose((values ** 2).sum(-1), (np.abs(a) ** 2).sum((-1, -2)), **TOL)
    assert len(rest) == 2 * sample.params["compute_uv"]
    if rest:
        u, vt = rest
        k = values.shape[-1]
        orthonormal(u), orthonormal(adjoint(vt))
        np.testing.assert_allclose((u[..., :k] * values[..., None, :]) @ vt[..., :k, :], a, **TOL)


@cases("qr")
def test_qr_factors_multiply_to_matrix(sample):
    a, = wide(*sample.args)
    q, r, *order = results(sample)
    orthonormal(q)
    np.testing.assert_array_equal(r, np.triu(r))
    if order:
        a = np.take_along_axis(a, order[0].astype(int)[..., None, :], -1)
    np.testing.assert_allclose(q @ r, a, **TOL)


@cases("lu")
def test_lu_factors_multiply_to_matrix(sample):
    a, = wide(*sample.args)
    packed, pivots, order = results(sample)
    m, n = a.shape[-2:]
    lower = np.tril(packed[..., :, :min(m, n)], -1) + np.eye(m, min(m, n))
    upper = np.triu(packed[..., :min(m, n), :])
    np.testing.assert_allclose(lower @ upper, np.take_along_axis(a, order.astype(int)[..., None], -2), **TOL)
    swapped = np.broadcast_to(np.arange(m), order.shape).copy()
    for at in np.ndindex(pivots.shape[:-1]):
        for i, p in enumerate(pivots[at].astype(int)):
            swapped[at][[i, p]] = swapped[at][[p, i]]
    np.testing.assert_array_equal(swapped, order)


@cases("lu_pivots_to_permutation")
def test_lu_pivots_give_permutation(sample):
    order, = results(sample)
    for at in np.ndindex(order.shape[:-1]):
        want = list(range(sample.params["permutation_size"]))
        for i, p in enumerate(sample.args[0][at].tolist()):
            want[i], want[p] = want[p], want[i]
        assert order[at].tolist() == want


@cases("triangular_solve")
def test_triangular_solve_solves_system(sample):
    p = sample.params
    a, b = wide(*sample.args)
    x, = results(sample)
    a = np.tril(a) if p["lower"] else np.triu(a)
    if p["unit_diagonal"]:
        a = a * (1 - np.eye(a.shape[-1])) + np.eye(a.shape[-1])
    a = np.swapaxes(a, -1, -2) if p["transpose_a"] else a
    a = np.conj(a) if p["conjugate_a"] else a
    np.testing.assert_allclose(a @ x if p["left_side"] else x @ a, b, **TOL)


@cases("tridiagonal_solve")
def test_tridiagonal_solve_solves_system(sample):
    low, middle, high, b = wide(*sample.args)
    x, = results(sample)
    left = middle[..., None] * x
    left[..., 1:, :] += low[..., 1:, None] * x[..., :-1, :]
    left[..., :-1, :] += high[..., :-1, None] * x[..., 1:, :]
    np.testing.assert_allclose(left, b, **TOL)


@cases("schur")
def test_schur_form_is_triangular_and_similar(sample):
    a, = wide(*sample.args)
    t, *q = results(sample)
    np.testing.assert_allclose(np.trace(t, axis1=-2, axis2=-1), np.trace(a, axis1=-2, axis2=-1), **TOL)
    np.testing.assert_allclose(np.tril(t, -2 if not np.iscomplexobj(a) else -1), 0, atol=1e-5)
    if q:
        orthonormal(q[0])
        np.testing.assert_allclose(q[0] @ t @ adjoint(q[0]), a, **TOL)


def test_householder_vectors_multiply_to_qr_factors():
    a = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    packed, factors = evaluate_primitive(prims.geqrf_p, [a], {})
    q = np.eye(4)
    for i, f in enumerate(factors):
        v = np.concatenate([np.zeros(i), [1], packed[i + 1:, i]])
        q = q @ (np.eye(4) - f * np.outer(v, v))
    np.testing.assert_allclose(q @ np.triu(packed)[:4], a, **TOL)
    out = evaluate_primitive(prims.householder_product_p, [packed, factors], {})
    np.testing.assert_allclose(out, q[:, :3], **TOL)


@pytest.mark.parametrize("name", ["hessenberg", "tridiagonal"])
def test_tridiagonal_and_hessenberg_keep_eigenvalues(name):
    for sample in samples_of(getattr(prims, f"{name}_p")):
        a, = wide(*sample.args)
        first, *rest = results(sample)
        if name == "hessenberg":
            reduced = np.triu(first, -1)
        else:
            a = of_one_half(a, sample.params["lower"])
            d, e = [r for r in rest if not np.iscomplexobj(r)][:2]
            n = d.shape[-1]
            reduced = d[..., None] * np.eye(n) + sum(
                e[..., i, None, None] * (np.outer(np.eye(n)[i], np.eye(n)[i + 1]) + np.outer(np.eye(n)[i + 1], np.eye(n)[i]))
                for i in range(n - 1))
        key = lambda w: np.sort_complex(np.round(np.atleast_2d(w), 3))
        np.testing.assert_allclose(key(np.linalg.eigvals(reduced)), key(np.linalg.eigvals(a)), atol=5e-3)


def test_custom_linear_solve_solves_system():
    for sample in samples_of(prims.linear_solve_p):
        a, b = wide(*sample.args)
        np.testing.assert_allclose(results(sample)[0], b / a, **TOL)  # the sample's system is diagonal
