"""The functions of `lax.linalg` and `lax.fft`: arguments, defaults, errors."""
import numpy as np
import pytest
from lamina_ir import ShapeError
from lamina_tracing import lax
from lamina_tracing.lax import factorizations as linalg

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 4)).astype(np.float32)
H = X + X.T


def test_cholesky_symmetrizes_by_default():
    a = np.array([[4, 100], [2, 5]], np.float32)
    np.testing.assert_allclose(linalg.cholesky(a, symmetrize_input=False), [[2, 0], [1, 2]])
    np.testing.assert_allclose(linalg.cholesky(np.array([[4, 3], [1, 5]], np.float32)), [[2, 0], [1, 2]])


def test_eigh_subsets_and_triangles():
    v, w = linalg.eigh(H)
    np.testing.assert_allclose(np.asarray(v) @ np.diag(w) @ np.asarray(v).T, H, atol=1e-5)
    part, some = linalg.eigh(H, subset_by_index=(1, 3))
    np.testing.assert_array_equal(some, w[1:3])
    assert part.shape == (4, 2)
    upper = linalg.eigh(np.triu(H), lower=False, symmetrize_input=False)[1]
    np.testing.assert_allclose(upper, w, atol=1e-5)


def test_svd_options():
    u, s, vh = linalg.svd(X[:, :2])
    assert u.shape == (4, 4) and vh.shape == (2, 2)
    np.testing.assert_allclose(np.asarray(u)[:, :2] * s @ np.asarray(vh), X[:, :2], atol=1e-5)
    np.testing.assert_allclose(linalg.svd(X, compute_uv=False), np.linalg.svd(X)[1], rtol=1e-5)
    assert [x.shape for x in linalg.svd(X, full_matrices=False, subset_by_index=(0, 2))] == [(4, 2), (2,), (2, 4)]


def test_eig_returns_requested_results():
    assert len(linalg.eig(X)) == 3
    assert len(linalg.eig(X, compute_left_eigenvectors=False)) == 2
    assert len(linalg.eig(X, compute_left_eigenvectors=False, compute_right_eigenvectors=False)) == 1


@pytest.mark.parametrize("left", [True, False])
def test_triangular_solve_accepts_vectors(left):
    a, b = np.tril(X) + 3 * np.eye(4, dtype=np.float32), X[0]
    got = linalg.triangular_solve(a, b, left_side=left, lower=True)
    np.testing.assert_allclose(got, np.linalg.solve(a if left else a.T, b), rtol=1e-4)


def test_fft_types_by_name_and_value():
    for kind in ("rfft", "RFFT", 2, lax.FftType.RFFT):
        np.testing.assert_allclose(lax.fft(X[0], kind, (4,)), np.fft.rfft(X[0]), rtol=1e-5)
    assert lax.fft(X, "fft", (4, 4)).dtype == np.complex64


@pytest.mark.parametrize("call, error, words", [
    (lambda: linalg.cholesky(X[:2]), ShapeError, "cholesky: expected square"),
    (lambda: linalg.eigh(X[0]), ShapeError, "eigh: expected matrices"),
    (lambda: linalg.eigh(H, subset_by_index=(2, 9)), ValueError, "subset_by_index"),
    (lambda: linalg.svd(X, subset_by_index=(0, 1)), ValueError, "full_matrices=False"),
    (lambda: linalg.schur(X, sort_eig_vals=True), NotImplementedError, "sort_eig_vals"),
    (lambda: linalg.triangular_solve(X, X[:3], left_side=True), ShapeError, "triangular_solve: expected a"),
    (lambda: linalg.lu(np.ones((2, 2), np.int32)), TypeError, "lu: operands must be float32"),
    (lambda: lax.fft(X, "DCT", (4,)), ValueError, "fft_type must be one of"),
    (lambda: lax.fft(X, "FFT", 4), ShapeError, "sequence of lengths"),
    (lambda: lax.fft(X, "FFT", (5,)), ShapeError, "must have lengths"),
    (lambda: lax.fft(X * 1j, "RFFT", (4,)), TypeError, "Use FFT"),
])
def test_errors_name_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("shape, dtype", [((4, 4), np.float32), ((5, 3), np.complex64)])
def test_polar_factors(shape, dtype):
    x = RNG.normal(size=shape).astype(dtype)
    x = x + 1j * x[::-1] if dtype is np.complex64 else x
    u, h, steps, converged = map(np.asarray, linalg.qdwh(x))
    assert converged and steps <= 8
    np.testing.assert_allclose(u @ h, x, atol=1e-4)
    np.testing.assert_allclose(np.conj(u.T) @ u, np.eye(shape[1]), atol=1e-5)
    assert np.linalg.eigvalsh(h).min() > 0
    with pytest.raises(ShapeError, match="m >= n"):
        linalg.qdwh(np.ones((2, 3), np.float32))


def test_integer_matrices_are_converted_to_floats():
    m = np.array([[2, 1], [1, 3]])
    for dtype in (np.int32, np.uint8, bool):
        np.testing.assert_allclose(linalg.cholesky((m * (m > 1)).astype(dtype)),
                                   np.linalg.cholesky((m * (m > 1)).astype(dtype).astype(float)), rtol=1e-6)
    v, w = linalg.eigh(m)
    assert v.dtype == w.dtype == np.float32
    np.testing.assert_allclose(w, np.linalg.eigvalsh(m), rtol=1e-6)
    np.testing.assert_allclose(lax.fft(np.arange(4), "RFFT", (4,)), np.fft.rfft(np.arange(4)), atol=1e-5)
