"""Derivatives, maps and compiled forms of functions of lax that are written with others."""
import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.lax import linalg
from lamina.test_util import check_grads

RNG = np.random.default_rng(0)
EYE = np.eye(4)
A, W, X = RNG.normal(size=(4, 4)), RNG.normal(size=4), RNG.normal(size=(2, 3))
NUMBERS = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
FUNCTIONS = {
    "log2": (lax.log2, (np.abs(X) + 0.1,)), "one_minus_square": (lax.one_minus_square, (X,)),
    "stack": (lambda x, y: lax.stack([x, y], 1), (X, X + 1)), "unstack": (lambda x: lax.unstack(x, 1), (X,)),
    "tile": (lambda x: lax.tile(x, (2, 3)), (X,)), "broadcast_like": (lambda x: lax.broadcast_like(x, X), (X[:, :1],)),
    "stage": (lax.stage, (X,)),
    "cholesky_update": (linalg.cholesky_update, (np.triu(A) + 4 * EYE, W)),
    "ormqr": (lambda a, t, c: linalg.ormqr(a, t, c, transpose=True), (A[:, :2] / 4, W[:2] / 4, A)),
    "symmetric_product": (lambda a, c: linalg.symmetric_product(a, c, alpha=2.0, beta=3.0), (A[:, :3], A)),
    "scaled_dot": (lambda a, b, s: lax.scaled_dot(a, b, lhs_scale=s, preferred_element_type=np.float64), (A, A.T, A[:, :2])),
    "ragged_dot_general": (lambda x, w: lax.ragged_dot_general(x, w, np.int32([1, 2]), NUMBERS),
                           (A, RNG.normal(size=(2, 4, 3)))),
    "dot_general": (lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), precision="F64_F64_F64"), (A, A[:, :3]))}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_maps_and_compiled_forms(name):
    f, args = FUNCTIONS[name]
    with lamina.enable_x64():
        args = [jnp.asarray(x) for x in args]
        check_grads(f, tuple(args), order=2, modes=["fwd", "rev"])
        want, got = f(*args), lamina.jit(f)(*args)
        mapped = lamina.vmap(f)(*[jnp.stack([x, 2 * x]) for x in args])
        twice = f(*[2 * x for x in args])
        for a, b, c, d in zip(*map(lamina.tree_leaves, (want, got, mapped, twice)), strict=True):
            np.testing.assert_allclose(a, b, 1e-12, 1e-12)
            np.testing.assert_allclose(c, np.stack([a, d]), 1e-12, 1e-12)


def test_compiled_and_mapped_high_words():
    x, y = RNG.integers(-2 ** 31, 2 ** 31, (2, 50), dtype=np.int64).astype(np.int32)
    want = (x.astype(np.int64) * y) >> 32
    np.testing.assert_array_equal(lamina.jit(lax.mulhi)(x, y), want)
    np.testing.assert_array_equal(lamina.vmap(lax.mulhi)(x, y), want)


@pytest.mark.parametrize("name", ["F16_F16_F16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "TF32_TF32_F32", "F32_F32_F32"])
def test_algorithms_in_products_of_numpy(name):
    x, y = RNG.normal(size=(5, 16)).astype(np.float32), RNG.normal(size=(16, 7)).astype(np.float32)
    got = lamina.jit(lambda x, y: jnp.matmul(x, y, precision=name))(x, y)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, x @ y, 1e-2, 6e-2)
    assert jnp.einsum("ij,jk", x, y, precision=lax.DotAlgorithmPreset[name]).shape == (5, 7)
    assert lamina.grad(lambda x: jnp.dot(x, y, precision=name).sum())(x).shape == x.shape
