"""Matrices made of vectors and of numbers, products with Q, and Sylvester's equation, compared with SciPy."""
import math

import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import ShapeError, config
from lamina_scipy import linalg
from lamina_tracing import jit

RNG = np.random.default_rng(0)
A, B, C = RNG.normal(size=5), RNG.normal(size=(2, 5)), RNG.normal(size=3)


def compare(name, *args, tol=1e-12, **kwargs):
    """Call both libraries in float64."""
    scipy_linalg = pytest.importorskip("scipy.linalg")
    with config.enable_x64(True):
        got, want = getattr(linalg, name)(*args, **kwargs), getattr(scipy_linalg, name)(*args, **kwargs)
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    for x, y in zip(got, want, strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(np.asarray(x), np.asarray(y).astype(x.dtype), tol, tol)


@pytest.mark.parametrize("a", [A, B, A[:1]], ids=["vector", "stack", "one"])
@pytest.mark.parametrize("name", ["circulant", "fiedler", "fiedler_companion", "companion"])
def test_matrices_of_a_vector(name, a):
    if len(a) > 1 or name in ("circulant", "fiedler"):
        compare(name, a)


@pytest.mark.parametrize("n", range(2, 9))
def test_companion_matrices_have_the_roots_of_the_polynomial(n):
    a = RNG.normal(size=n)
    compare("fiedler_companion", a)
    with config.enable_x64(True):
        for name in ("companion", "fiedler_companion"):
            roots = np.linalg.eigvals(np.asarray(getattr(linalg, name)(a)))
            np.testing.assert_allclose(np.sort_complex(roots), np.sort_complex(np.roots(a)), 1e-9, 1e-9)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("n", [1, 3, 5, 8])
def test_convolution_matrix(n, mode):
    for a in (A, B):
        compare("convolution_matrix", a, n, mode)
    v = RNG.normal(size=n)
    np.testing.assert_allclose(linalg.convolution_matrix(A, n, mode) @ v, np.convolve(A, v, mode), 1e-5, 1e-5)


def test_hankel_and_leslie():
    compare("hankel", A)
    compare("hankel", A, C)
    compare("leslie", A, A[1:])
    compare("leslie", B, B[:, 1:])
    assert linalg.hankel(B).shape == (2, 5, 5)
    np.testing.assert_array_equal(linalg.fiedler(np.array([1, 5], np.uint8)), [[0, 4], [4, 0]])


@pytest.mark.parametrize("n", range(9))
def test_matrices_of_a_size(n):
    for kind in ("symmetric", "lower", "upper"):
        compare("pascal", n, kind)
        compare("invpascal", n, kind)
    for scale in (None, "sqrtn", "n"):
        compare("dft", n, scale)
    np.testing.assert_array_equal(linalg.pascal(n), linalg.pascal(n, "symmetric"))
    if n:
        compare("invhilbert", n)
        compare("helmert", n)
        compare("helmert", n, True)


def test_large_matrices_of_a_size():
    compare("dft", 100, tol=1e-13)
    compare("hadamard", 64)
    assert linalg.hadamard(4, dtype=np.int8).dtype == np.int8
    assert linalg.pascal(36)[-1, -1] == np.float32(math.comb(70, 35))
    assert linalg.dft(4).tolist() == [[1, 1, 1, 1], [1, -1j, -1, 1j], [1, -1, 1, -1], [1, 1j, -1, -1j]]


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("pivoting", [False, True])
@pytest.mark.parametrize("kind", [1, 1 + 0.5j])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
def test_qr_multiply(shape, kind, pivoting, conjugate):
    a = RNG.normal(size=shape) + kind.imag * 1j * RNG.normal(size=shape) if kind != 1 else RNG.normal(size=shape)
    c, d = RNG.normal(size=(3, shape[0])), RNG.normal(size=(4, 2))
    compare("qr_multiply", a, c, pivoting=pivoting, conjugate=conjugate)
    compare("qr_multiply", a, d, "left", pivoting=pivoting, conjugate=conjugate)


def test_qr_multiply_with_vectors_and_stacks():
    a = RNG.normal(size=(6, 4))
    compare("qr_multiply", a, RNG.normal(size=6))
    compare("qr_multiply", a, RNG.normal(size=4), "left")
    product, r = linalg.qr_multiply(np.stack([a, a + 1]), np.ones((2, 3, 6)))
    assert product.shape == (2, 3, 4) and r.shape == (2, 4, 4)


@pytest.mark.parametrize("method", ["schur", "eigen"])
@pytest.mark.parametrize("kind", [0, 1j])
def test_sylvester_equation(kind, method, x64):
    a, b, c = (RNG.normal(size=s) + kind * RNG.normal(size=s) if kind else RNG.normal(size=s) for s in ((5, 5), (3, 3), (5, 3)))
    x = jit(lambda a, b, c: linalg.solve_sylvester(a, b, c, method=method))(a, b, c)
    np.testing.assert_allclose(a @ x + x @ b, c, 1e-9, 1e-9)
    stack = np.stack([a, a + 1])
    mapped = vmap(lambda a: linalg.solve_sylvester(a, b, c, method=method))(stack)
    np.testing.assert_allclose(linalg.solve_sylvester(stack, b, c, method=method), mapped, 1e-9)


def test_derivatives_of_the_sylvester_equation(x64):
    args = [RNG.normal(size=s) for s in ((5, 5), (3, 3), (5, 3))]

    def f(*args):
        return (linalg.solve_sylvester(*args) ** 2).sum()
    for i, derivative in enumerate(jit(grad(f, (0, 1, 2)))(*args)):
        step = RNG.normal(size=args[i].shape)
        ends = [f(*args[:i], args[i] + h * step, *args[i + 1:]) for h in (1e-6, -1e-6)]
        np.testing.assert_allclose((np.asarray(derivative) * step).sum(), (ends[0] - ends[1]) / 2e-6, 1e-6)


def test_sylvester_equation_without_a_solution_is_nan():
    for method in ("schur", "eigen"):
        assert np.isnan(linalg.solve_sylvester(np.eye(2), -np.eye(2), np.ones((2, 2)), method=method)).all()


@pytest.mark.parametrize("call, error, words", [
    (lambda: linalg.companion(np.ones(1)), ShapeError, "companion: a must have at least 2 elements"),
    (lambda: linalg.circulant(np.float32(1)), ShapeError, "circulant: c must have at least 1 element "),
    (lambda: linalg.convolution_matrix(A, 0), ValueError, "convolution_matrix: n must be at least 1; got 0"),
    (lambda: linalg.convolution_matrix(A, 2, "no"), ValueError, 'mode must be "full", "same" or "valid"; got .no.'),
    (lambda: linalg.leslie(A, A), ShapeError, "leslie: s must be one element shorter than f"),
    (lambda: linalg.hadamard(6), ValueError, "hadamard: n must be a power of 2; got 6"),
    (lambda: linalg.dft(2.5), TypeError, "dft: n must be an integer"),
    (lambda: linalg.dft(2, "x"), ValueError, 'dft: scale must be None, "sqrtn" or "n"'),
    (lambda: linalg.pascal(-1), ValueError, "pascal: n must be at least 0; got -1"),
    (lambda: linalg.invpascal(2, "x"), ValueError, "invpascal: kind must be"),
    (lambda: linalg.helmert(0), ValueError, "helmert: n must be at least 1"),
    (lambda: linalg.qr_multiply(np.ones((3, 2)), np.ones((3, 2))), ShapeError, "qr_multiply: c must have 3 columns"),
    (lambda: linalg.qr_multiply(np.ones((3, 2)), np.ones(3), "up"), ValueError, "qr_multiply: mode must be"),
    (lambda: linalg.solve_sylvester(np.eye(2), np.eye(3), np.eye(2)), ShapeError, "C must have 2 rows and 3 columns"),
    (lambda: linalg.solve_sylvester(np.eye(2), np.eye(2), np.eye(2), method="x"), ValueError, "method must be"),
])
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
