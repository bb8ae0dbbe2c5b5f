"""Compiled matrix primitives: 64-bit, larger matrices than the samples, failures as NaN, other platforms."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import MissingRuleError, aval_of, config, prims
from lamina_lowering import lower
from lamina_lowering.testing import check_lowering, single_eqn_program, run_lowered

RNG = np.random.default_rng(0)
EIG = {"compute_left_eigenvectors": True, "compute_right_eigenvectors": True}
SVD = {"compute_uv": True, "full_matrices": True}
N = 37


def random_matrix(dtype, *shape):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def run_compiled(prim, *args, **params):
    return run_lowered(lower(single_eqn_program(prim, [aval_of(a) for a in args], params)), *args)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("prim, params", [
    (prims.lu_p, {}), (prims.qr_p, {"full_matrices": True, "pivoting": False}),
    (prims.qr_p, {"full_matrices": False, "pivoting": True}), (prims.hessenberg_p, {}),
    (prims.tridiagonal_p, {"lower": True}), (prims.tridiagonal_p, {"lower": False}),
    (prims.svd_p, SVD), (prims.eigh_p, {"lower": False}), (prims.geqrf_p, {}),
], ids=lambda p: getattr(p, "name", ""))
def test_blocked_algorithms_agree_in_64_bits(prim, params, dtype):
    with config.enable_x64(True):
        x = random_matrix(dtype, 2, N, N)
        check_lowering(prim, [x + np.conj(np.swapaxes(x, 1, 2)) if "lower" in params else x], params)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_eigenvectors_satisfy_the_eigenvalue_equation(dtype):
    with config.enable_x64(True):
        x = random_matrix(dtype, N, N)
        w, u, v = run_compiled(prims.eig_p, x, **EIG)
        np.testing.assert_allclose(x @ v, v * w, atol=1e-9)
        np.testing.assert_allclose(np.conj(u.T) @ x, w[:, None] * np.conj(u.T), atol=1e-9)
        t, q = run_compiled(prims.schur_p, x, compute_schur_vectors=True)
        np.testing.assert_allclose(q @ t @ np.conj(q.T), x, atol=1e-9)


@pytest.mark.parametrize("prim, params", [
    (prims.eigh_p, {"lower": True}), (prims.eig_p, EIG), (prims.svd_p, SVD),
    (prims.schur_p, {"compute_schur_vectors": True}), (prims.cholesky_p, {})], ids=lambda p: getattr(p, "name", ""))
def test_nan_matrix_does_not_affect_others_of_its_batch(prim, params):
    x = np.stack([np.eye(3), np.full((3, 3), np.nan), 2 * np.eye(3)]).astype(np.float32)
    for out in run_compiled(prim, x, **params):
        assert np.isnan(out[1]).any() and np.isfinite(out[0]).all() and np.isfinite(out[2]).all()


def test_failures_are_nan():
    assert np.isnan(run_compiled(prims.cholesky_p, -np.eye(2, dtype=np.float32))[0][1]).all()
    zeros = np.zeros(3, np.float32)
    assert np.isnan(run_compiled(prims.tridiagonal_solve_p, zeros, zeros, zeros, np.ones((3, 1), np.float32))[0]).all()


def test_lu_of_singular_matrix():
    packed, pivots, order = run_compiled(prims.lu_p, np.zeros((2, 2), np.float32))
    assert not packed.any() and list(pivots) == [0, 1] and list(order) == [0, 1]


def test_lowered_program_lists_needed_libraries():
    x = aval_of(np.eye(2, dtype=np.float32))
    assert lower(single_eqn_program(prims.lu_p, [x], {})).needs == {"lapack"}
    assert not lower(single_eqn_program(prims.neg_p, [x], {})).needs
    assert not lower(single_eqn_program(prims.cholesky_p, [x], {}), platform="cuda").needs


@pytest.mark.parametrize("prim, params, kernel", [
    (prims.lu_p, {}, "cusolver_getrf_ffi"), (prims.qr_p, {"full_matrices": True, "pivoting": False}, "cusolver_orgqr_ffi"),
    (prims.eigh_p, {"lower": True}, "cusolver_syevd_ffi"), (prims.svd_p, SVD, "cusolver_gesvd_ffi"),
    (prims.eig_p, {"compute_left_eigenvectors": False, "compute_right_eigenvectors": True}, "cusolver_geev_ffi"),
    (prims.cholesky_p, {}, "stablehlo.cholesky")], ids=lambda p: getattr(p, "name", p) if not isinstance(p, dict) else "")
def test_cuda_rules_emit_valid_modules(prim, params, kernel):
    lowered = lower(single_eqn_program(prim, [aval_of(np.ones((2, 3, 3), np.float32))], params), platform="cuda")
    lowered.module.operation.verify()
    assert kernel in lowered.as_text()


@pytest.mark.parametrize("platform, prim, params", [("cuda", prims.hessenberg_p, {}), ("rocm", prims.lu_p, {})])
def test_missing_kernel_error_suggests_cpu_backend(platform, prim, params):
    with pytest.raises(MissingRuleError, match="backend='cpu'"):
        lower(single_eqn_program(prim, [aval_of(np.eye(2, dtype=np.float32))], params), platform=platform)


def test_cuda_eig_refuses_left_eigenvectors():
    with pytest.raises(NotImplementedError, match="compute_left_eigenvectors=False"):
        lower(single_eqn_program(prims.eig_p, [aval_of(np.eye(2, dtype=np.float32))], EIG), platform="cuda")
