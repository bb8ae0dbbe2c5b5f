"""NumPy evaluation of factorizations: defining properties, LAPACK's conventions, errors for wrong types."""
import numpy as np
import pytest
from lamina_ir import DTypeError, ShapeError, prims, shaped

RNG = np.random.default_rng(0)
KINDS = (np.float64, np.complex128)


def draw(dtype, *shape):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype is np.complex128 else x).astype(dtype)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3)])
def test_lu_factors_multiply_to_matrix(dtype, shape):
    x = draw(dtype, *shape)
    packed, pivots, order = prims.lu_p.numpy(x)
    k = min(shape[-2:])
    lower = np.tril(packed[..., :k], -1) + np.eye(shape[-2], k)
    rows = np.take_along_axis(x, order[..., None], -2)
    np.testing.assert_allclose(lower @ np.triu(packed[..., :k, :]), rows, atol=1e-12)
    np.testing.assert_array_equal(prims.lu_pivots_to_permutation_p.numpy(pivots, permutation_size=shape[-2]), order)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_qr_equals_lapack(dtype, shape):
    x = draw(dtype, *shape)
    for mode, full in (("reduced", False), ("complete", True)):
        for got, wanted in zip(prims.qr_p.numpy(x, full_matrices=full, pivoting=False), np.linalg.qr(x, mode)):
            np.testing.assert_allclose(got, wanted, atol=1e-12)


def test_pivoted_qr_orders_the_diagonal():
    x = draw(np.float64, 5, 4)
    q, r, order = prims.qr_p.numpy(x, full_matrices=False, pivoting=True)
    np.testing.assert_allclose(q @ r, x[:, order], atol=1e-12)
    assert np.all(np.diff(np.abs(np.diagonal(r))) <= 0)


@pytest.mark.parametrize("dtype", KINDS)
def test_schur_form_is_triangular_and_similar(dtype):
    x = draw(dtype, 6, 6)
    t, q = prims.schur_p.numpy(x, compute_schur_vectors=True)
    np.testing.assert_allclose(q @ t @ np.conj(q.T), x, atol=1e-11)
    np.testing.assert_allclose(np.conj(q.T) @ q, np.eye(6), atol=1e-12)
    assert not np.any(np.tril(t, -1 if dtype is np.complex128 else -2))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("lower", [True, False])
def test_tridiagonal_and_hessenberg_keep_eigenvalues(dtype, lower):
    x = draw(dtype, 5, 5)
    x = x + np.conj(x.T)
    _, d, e, _ = prims.tridiagonal_p.numpy(x, lower=lower)
    np.testing.assert_allclose(np.linalg.eigvalsh(np.diag(d) + np.diag(e, 1) + np.diag(e, -1)), np.linalg.eigvalsh(x),
                               atol=1e-11)
    h, taus = prims.hessenberg_p.numpy(x)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(np.triu(h, -1)).real), np.linalg.eigvalsh(x), atol=1e-10)
    q = np.eye(5, dtype=dtype)
    q[1:, 1:] = prims.householder_product_p.numpy(h[1:, :-1], taus)
    np.testing.assert_allclose(q @ np.triu(h, -1) @ np.conj(q.T), x, atol=1e-11)


def test_left_eigenvectors_match_eigenvalues():
    x = draw(np.float64, 4, 4)
    w, u, v = prims.eig_p.numpy(x, compute_left_eigenvectors=True, compute_right_eigenvectors=True)
    np.testing.assert_allclose(np.conj(u.T) @ x, w[:, None] * np.conj(u.T), atol=1e-11)
    np.testing.assert_allclose(x @ v, v * w, atol=1e-11)


def test_no_result_is_nan():
    assert np.isnan(prims.cholesky_p.numpy(-np.eye(2))[0, 0])
    assert prims.cholesky_p.numpy(-np.eye(2))[0, 1] == 0
    assert np.isnan(prims.svd_p.numpy(np.full((2, 2), np.nan), compute_uv=True, full_matrices=True)[0]).all()


@pytest.mark.parametrize("prim, shapes, params, words", [
    (prims.cholesky_p, ["f32[2,3]"], {}, "cholesky: expected square"),
    (prims.lu_p, ["f32[3]"], {}, "lu: expected matrices"),
    (prims.lu_p, ["i32[3,3]"], {}, "lu: operands must be float32"),
    (prims.eigh_p, ["f32[2,3]"], {"lower": True}, "eigh: expected square"),
    (prims.householder_product_p, ["f32[2,3]", "f32[2]"], {}, "m >= n"),
    (prims.tridiagonal_solve_p, ["f32[3]", "f32[3]", "f32[2]", "f32[3,1]"], {}, "tridiagonal_solve: expected dl"),
    (prims.fft_p, ["c64[4]"], {"fft_type": prims.fft.FftType.FFT, "fft_lengths": (5,)}, "must have lengths"),
    (prims.fft_p, ["c64[4]"], {"fft_type": prims.fft.FftType.RFFT, "fft_lengths": (4,)}, "must be float32 or float64"),
    (prims.fft_p, ["c64[1,1,1,1]"], {"fft_type": prims.fft.FftType.FFT, "fft_lengths": (1,) * 4}, "one to three"),
])
def test_wrong_types_are_rejected_by_name(prim, shapes, params, words):
    from lamina_ir.dtypes import from_short_name
    avals = []
    for text in shapes:
        name, sizes = text[:-1].split("[")
        avals.append(shaped(tuple(map(int, sizes.split(","))), from_short_name(name)))
    with pytest.raises((ShapeError, DTypeError), match=words):
        prim.infer(*avals, **params)
