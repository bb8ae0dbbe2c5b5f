"""Compiled functions of lamina.experimental.sparse agree with NumPy; sparse arrays are arguments of jit, vmap and pmap."""
import importlib.util
from pathlib import Path

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina.experimental import sparse
from lamina.experimental.sparse import BCOO

TESTS = Path(__file__).parents[2] / "packages" / "lamina-sparse" / "tests"


def _load(name):
    spec = importlib.util.spec_from_file_location(f"sparse_{name}", TESTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROPERTIES, SPARSIFY, FORMATS = map(_load, ("test_properties", "test_sparsify", "test_formats"))
X = FORMATS.X


@pytest.mark.parametrize("name", ["dense_values_round_trip", "sum_duplicates_gives_sorted_unique_indices", "reshapes",
                                  "broadcasts", "concatenations", "elementwise_arithmetic", "extract", "layouts",
                                  "gradients_are_those_of_the_dense_array", "vmap_maps_batch_dimensions"])
def test_properties(name):
    getattr(PROPERTIES, f"test_{name}")(((2, 3), 1, 0))


def test_compiled_contractions():
    PROPERTIES.test_contractions(*PROPERTIES.DIMENSIONS[5])
    PROPERTIES.test_sampled_contractions(*PROPERTIES.DIMENSIONS[5])
    PROPERTIES.test_matmul((3, 4), (4, 2))


def test_compiled_sparsify():
    for k in range(len(SPARSIFY.FUNCTIONS)):
        f = SPARSIFY.FUNCTIONS[k]
        got, want = lamina.jit(sparse.sparsify(f))(BCOO.fromdense(X)), f(jnp.asarray(X))
        for a, b in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
            assert np.allclose(sparse.todense(a), b, atol=1e-6), k


def test_sparse_arrays_on_several_devices():
    n = lamina.local_device_count()
    dense = np.stack([X * (i + 1) for i in range(n)])
    rows = BCOO.fromdense(dense, n_batch=1)
    out = lamina.pmap(lambda m, v: lamina.lax.psum(m @ v, "i"), axis_name="i")(rows, np.ones((n, 4), np.float32))
    assert np.allclose(out[0], dense.sum((0, 2)))
    doubled = lamina.pmap(lambda m: m * 2)(rows)
    assert doubled.shape == dense.shape and np.allclose(doubled.todense(), 2 * dense)


def test_training_of_sparse_weights_compiles_once():
    w, x, y = BCOO.fromdense(X), np.ones(4, np.float32), np.arange(3, dtype=np.float32)
    traced = []

    @lamina.jit
    def step(w):
        traced.append(w)
        g = sparse.grad(lambda w: ((w @ x - y) ** 2).sum())(w)
        return w.replace_data(w.data - 0.1 * g.data)
    for _ in range(60):
        w = step(w)
    assert len(traced) == 1 and np.allclose(w @ x, y, atol=1e-3) and w.nse == 4


def test_spsolve_in_a_compiled_function():
    a = sparse.CSR.fromdense(np.array([[2, 1, 0], [0, 3, 1], [1, 0, 4]], np.float32))
    solve = lamina.jit(lambda d, b: sparse.linalg.spsolve(d, a.indices, a.indptr, b))
    b = np.array([1, 2, 3], np.float32)
    assert np.allclose(a @ solve(a.data, b), b, atol=1e-5)
    got = lamina.jit(lamina.grad(lambda d, b: solve(d, b).sum(), argnums=(0, 1)))(a.data, b)
    inverse = np.linalg.inv(a.todense())
    assert np.allclose(got[1], inverse.sum(0), atol=1e-5)


def test_x64_and_strict_promotion():
    with lamina.enable_x64(True):
        mat = BCOO.fromdense(X.astype(np.float64), index_dtype=np.int64)
        assert mat.dtype == np.float64 and mat.indices.dtype == np.int64
        assert np.array_equal((mat @ mat.T).todense(), X @ X.T) and mat.reshape(-1).indices.dtype == np.int64
        assert np.array_equal(sparse.BCSR.from_bcoo(mat).todense(), X) and np.array_equal(mat.sum(0).todense(), X.sum(0))
    with lamina.numpy_dtype_promotion("strict"):
        mat = BCOO.fromdense(X)
        assert np.array_equal((mat @ mat.T + mat @ mat.T).sum_duplicates().todense(), 2 * X @ X.T)
        assert np.array_equal(mat[1:, ::-1].reshape(8).todense(), X[1:, ::-1].reshape(8))
    with lamina.numpy_rank_promotion("raise"):
        assert np.array_equal((mat @ mat.T).todense(), X @ X.T) and np.array_equal(mat.sum(0).todense(), X.sum(0))
