"""Derivatives with respect to stored elements, and `spsolve`."""
import lamina_numpy as lnp
import lamina_sparse as sparse
import numpy as np
import pytest
import scipy.sparse
from lamina_autodiff import grad, jacfwd, jacrev
from lamina_autodiff.testing import check_grads
from lamina_batching import vmap
from lamina_sparse import BCOO, BCSR, COO, CSR
from lamina_sparse.linalg import spsolve
from lamina_tracing import jit

X = np.array([[0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 0, 4]], np.float32)
Y = np.arange(8, dtype=np.float32).reshape(4, 2)
S = scipy.sparse.csr_matrix(np.array([[2, 1, 0], [0, 3., 1], [1, 0, 4]], np.float32))


@pytest.mark.parametrize("cls", [BCOO, BCSR, COO, CSR])
def test_gradients_have_the_format_and_the_indices(cls):
    mat = cls.fromdense(X)
    got = sparse.grad(lambda m: ((m @ Y) ** 2).sum())(mat)
    want = np.asarray(grad(lambda x: ((x @ Y) ** 2).sum())(X))
    assert isinstance(got, cls) and np.allclose(got.todense(), np.where(X != 0, want, 0))


@pytest.mark.parametrize("f", [
    lambda m: m @ Y, lambda m: Y.T @ m.T, lambda m: (m @ m.T).todense(), lambda m: (m * m).todense(),
    lambda m: m.sum(0).todense(), lambda m: m.reshape(2, 6).todense(), lambda m: m[1:, ::2].todense(),
    lambda m: m.sum_duplicates(nse=6).todense(), lambda m: (m + m.sort_indices()).todense(),
    lambda m: sparse.bcoo_concatenate([m, m], dimension=0).todense()])
def test_numerical_derivatives(f):
    mat = BCOO.fromdense(X, nse=5)
    check_grads(lambda data: f(mat.replace_data(data)), (mat.data[:],), order=2, modes=("fwd", "rev"), atol=2e-2, rtol=2e-2)


def test_jacobians():
    mat = BCOO.fromdense(X)
    dense = np.asarray(jacrev(lambda x: x @ Y)(X))
    for jac in (sparse.jacrev, sparse.jacfwd, sparse.jacobian):
        got = jac(lambda m: m @ Y)(mat)
        assert repr(got) == "BCOO(float32[3, 2, 3, 4], nse=4, n_batch=2)"
        assert np.allclose(got.todense(), np.where(X != 0, dense, 0))
        a, b = jac(lambda m, y: {"k": m @ y}, argnums=(0, 1))(mat, Y)["k"]
        assert np.allclose(a.todense(), got.todense()) and np.allclose(b, jacfwd(lambda y: X @ y)(Y))
        assert np.allclose(jac(lambda y: mat @ y)(Y), b)
        out, aux = jac(lambda m: (m @ Y, 3), has_aux=True)(mat)
        assert out.n_batch == 2 and aux == 3
        with pytest.raises(TypeError, match="must return dense arrays; got a sparse one"):
            jac(lambda m: m * 2)(mat)
    assert sparse.grad(lambda m: ((m @ Y).sum(), m), has_aux=True)(mat)[1].nse == 4
    with pytest.raises(ValueError, match="argnums must be positions of the 1 arguments; got 3"):
        sparse.grad(lambda m: m.sum(), argnums=3)(mat)


def test_spsolve_and_its_derivatives():
    b = np.array([1, 2, 3], np.float32)
    want = np.linalg.solve(S.toarray(), b)
    args = (S.indices, S.indptr)
    assert np.allclose(spsolve(S.data, *args, b), want, atol=1e-6)
    assert np.allclose(jit(spsolve)(S.data, *args, b), want, atol=1e-6)
    check_grads(lambda d, b: spsolve(d, *args, b), (S.data, b), order=2, modes=("fwd", "rev"), atol=2e-2, rtol=2e-2)
    many = np.stack([b, 2 * b])
    assert np.allclose(vmap(lambda b: spsolve(S.data, *args, b))(many), np.stack([want, 2 * want]), atol=1e-6)
    with pytest.raises(ValueError, match="b must be a vector"):
        spsolve(S.data, *args, many)


def test_complex_systems():
    z = S.data + 1j * S.data[::-1]
    full = scipy.sparse.csr_matrix((z, S.indices, S.indptr)).toarray()
    got = spsolve(z.astype(np.complex64), S.indices, S.indptr, lnp.ones(3))
    assert np.allclose(got, np.linalg.solve(full, np.ones(3)), atol=1e-5)
