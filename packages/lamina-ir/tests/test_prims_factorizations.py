"""NumPy evaluation of factorizations: defining properties, LAPACK's conventions, errors for wrong types."""
import itertools

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


ALL_DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
FLAGS = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")


def draw_all(dtype, *shape):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def substitute(t, b):
    """Solve t x = b for one upper triangle, one unknown after the other."""
    x = b.copy()
    for i in reversed(range(len(t))):
        with np.errstate(all="ignore"):
            x[i] = (x[i] - t[i, i + 1:] @ x[i + 1:]) / t[i, i]
    return x


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("flags", list(itertools.product((True, False), repeat=5)))
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_triangular_solve_reads_one_triangle(dtype, flags, batch):
    params = dict(zip(FLAGS, flags))
    a = draw_all(dtype, *batch, 5, 5) + 3 * np.eye(5, dtype=dtype)
    b = draw_all(dtype, *batch, *((5, 2) if params["left_side"] else (2, 5)))
    t = np.tril(a) if params["lower"] else np.triu(a)
    if params["unit_diagonal"]:
        t = t - t * np.eye(5, dtype=dtype) + np.eye(5, dtype=dtype)
    t = np.swapaxes(t, -1, -2) if params["transpose_a"] else t
    t = np.conj(t) if params["conjugate_a"] else t
    unread = np.triu(np.ones((5, 5), bool), 0 if params["unit_diagonal"] else 1)
    a[..., unread if params["lower"] else unread.T] = np.nan
    # The transposed views of transposed copies have columns in order of memory.
    for x, y in ((a, b), (np.swapaxes(np.swapaxes(a, -1, -2).copy(), -1, -2), b[..., ::-1, :].copy()[..., ::-1, :])):
        got = prims.triangular_solve_p.numpy(x, y, **params)
        tolerance = 1e-4 if np.dtype(dtype).itemsize // (1 + (np.dtype(dtype).kind == "c")) == 4 else 1e-12
        np.testing.assert_allclose(t @ got if params["left_side"] else got @ t, b, atol=tolerance)
        assert got.dtype == dtype


@pytest.mark.parametrize("value", [0.0, np.inf, np.nan])
@pytest.mark.parametrize("place", [(0, 0), (2, 2), (1, 2)])
def test_triangular_solve_with_zeros_and_infinities_is_substitution(value, place):
    t = np.triu(draw(np.float64, 4, 4)) + 2 * np.eye(4)
    t[place] = value
    b = draw(np.float64, 4, 2)
    flags = dict.fromkeys(FLAGS, False) | {"left_side": True}
    np.testing.assert_allclose(prims.triangular_solve_p.numpy(t, b, **flags), substitute(t, b))
    lower = {**flags, "lower": True}
    flipped = prims.triangular_solve_p.numpy(t[::-1, ::-1], b[::-1], **lower)[::-1]
    np.testing.assert_allclose(flipped, substitute(t, b))
    stacked = prims.triangular_solve_p.numpy(np.stack([np.eye(4), t]), np.stack([b, b]), **flags)
    np.testing.assert_allclose(stacked, np.stack([b, substitute(t, b)]))
    b[1, 0] = value
    np.testing.assert_allclose(prims.triangular_solve_p.numpy(np.eye(4), b, **flags), substitute(np.eye(4), b))


@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_lu_of_stack_equals_lu_of_each_matrix(dtype):
    x = draw_all(dtype, 7, 4, 4)
    x[2] = 0
    x[3, :, 1] = x[3, :, 0]
    for whole, parts in zip(prims.lu_p.numpy(x), zip(*[prims.lu_p.numpy(a) for a in x])):
        np.testing.assert_allclose(whole, np.stack(parts), rtol=1e-6)


def test_singular_systems_of_a_stack_are_nan():
    a, b = np.stack([np.eye(2), np.ones((2, 2)), 2 * np.eye(2)]), np.ones((3, 2, 1))
    out = prims.solve_p.numpy(a, b)
    np.testing.assert_array_equal(out[:, :, 0], [[1, 1], [np.nan, np.nan], [0.5, 0.5]])
    sign, size = prims.slogdet_p.numpy(-a)
    np.testing.assert_allclose(sign, [1, 0, 1])
    np.testing.assert_allclose(size, [0, -np.inf, np.log(4)])


def test_failed_factorizations_of_a_stack_are_nan():
    bad = np.stack([np.eye(3), np.full((3, 3), np.nan), 4 * np.eye(3)])
    for out in (prims.svd_p.numpy(bad, compute_uv=False, full_matrices=False)[0],
                prims.eigh_p.numpy(bad, lower=True)[1], prims.cholesky_p.numpy(bad * [[[1]], [[1]], [[1]]])):
        assert np.isfinite(out[[0, 2]]).all() and np.isnan(out[1]).any()
    np.testing.assert_array_equal(prims.cholesky_p.numpy(np.stack([-np.eye(2), np.eye(2)])),
                                  [[[np.nan, 0], [np.nan, np.nan]], np.eye(2)])


@pytest.mark.parametrize("dtype", KINDS)
def test_cholesky_reads_the_lower_triangle(dtype):
    x = draw(dtype, 4, 4)
    x = x @ np.conj(x.T) + np.eye(4)
    wanted = np.linalg.cholesky(x)
    x[np.triu_indices(4, 1)] = np.nan
    if dtype is np.complex128:
        x += 1j * np.eye(4)  # imaginary parts of the diagonal are not read
    np.testing.assert_allclose(prims.cholesky_p.numpy(x), wanted, atol=1e-12)


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
