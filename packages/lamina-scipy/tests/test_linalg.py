"""`linalg`, compared with NumPy and by its equations: stacks, kinds of numbers, derivatives, no result, bad input."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad, hessian
from lamina_autodiff.testing import check_grads
from lamina_batching import vmap
from lamina_ir import DTypeError, MissingRuleError, ShapeError
from lamina_scipy import linalg as L
from lamina_tracing import jit

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(0)


def draw(kind, *shape):
    x = RNG.normal(size=shape)
    return x + 1j * RNG.normal(size=shape) if kind == "complex" else x


def H(x):
    return np.conj(np.swapaxes(x, -1, -2))


def close(got, wanted, atol=1e-9):
    assert np.shape(got) == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, atol=atol, rtol=1e-9)


KINDS = pytest.mark.parametrize("kind", ["float", "complex"])


@KINDS
def test_factors_of_stacks(kind):
    a = draw(kind, 2, 4, 4)
    h = a @ H(a) + np.eye(4)
    upper, below = np.triu(h), np.tril(draw(kind, 2, 4, 4), -1)
    close(L.cholesky(upper + below), H(np.linalg.cholesky(h)))
    close(L.cholesky(H(upper + below), lower=True), np.linalg.cholesky(h))
    p, low, up = map(np.asarray, L.lu(a[..., :3]))
    close(p @ low @ up, a[..., :3])
    low, up = map(np.asarray, L.lu(a[..., :3, :], permute_l=True))
    close(low @ up, a[..., :3, :])
    for mode in ("full", "economic"):
        q, r = map(np.asarray, L.qr(a[..., :3], mode=mode))
        close(q @ r, a[..., :3])
    q, r, order = map(np.asarray, L.qr(a[0], pivoting=True))
    close(q @ r, a[0][:, order])
    close(L.qr(a, mode="r")[0], L.qr(a)[1])
    w, v = map(np.asarray, L.eigh(np.tril(h) + np.triu(draw(kind, 4, 4), 1)))
    close(v * w[..., None, :] @ H(v), h)
    b = draw(kind, 4, 4)
    b = b @ H(b) + np.eye(4)
    for number, left, right in ((1, lambda v: h @ v, lambda v: b @ v), (2, lambda v: h @ (b @ v), lambda v: v),
                                (3, lambda v: b @ (h @ v), lambda v: v)):
        w, v = map(np.asarray, L.eigh(h, b, type=number))
        close(left(v), right(v) * w[..., None, :], atol=1e-7)
        close(L.eigh(h, b, type=number, eigvals_only=True), w)
    t, z = map(np.asarray, L.schur(a, "complex"))
    close(z @ t @ H(z), a)
    close(np.tril(t, -1), np.zeros_like(t))
    close(z @ H(z), np.broadcast_to(np.eye(4), z.shape))
    s, q = map(np.asarray, L.hessenberg(a, calc_q=True))
    close(q @ s @ H(q), a)
    close(np.tril(s, -2), np.zeros_like(s))
    for shape in ((2, 4, 3), (3, 4), (3, 3)):
        x = draw(kind, *shape)
        for method in ("qdwh", "svd"):
            u, p = map(np.asarray, L.polar(x, method=method))
            close(u @ p, x)
            assert np.linalg.eigvalsh(p).min() > -1e-9
            u, p = map(np.asarray, L.polar(x, "left", method=method))
            close(p @ u, x)
            close(u @ H(u) if shape[-2] <= shape[-1] else H(u) @ u, np.broadcast_to(np.eye(3), (*shape[:-2], 3, 3)))


@KINDS
def test_systems_of_stacks(kind):
    a, b = draw(kind, 2, 4, 4), draw(kind, 2, 4, 3)
    h = a @ H(a) + np.eye(4)
    close(L.det(a), np.linalg.det(a))
    close(L.inv(a), np.linalg.inv(a))
    close(L.solve(a, b), np.linalg.solve(a, b))
    close(L.solve(a, b[..., 0]), np.linalg.solve(a, b)[..., 0])
    close(L.solve(a, b[0, :, 0]), np.linalg.solve(a, b[0])[..., 0])
    for lower in (False, True):
        part = (np.tril if lower else np.triu)(h)
        close(L.solve(part, b, assume_a="pos", lower=lower), np.linalg.solve(h, b))
        close(L.cho_solve(L.cho_factor(part, lower), b), np.linalg.solve(h, b))
        tri = (np.tril if lower else np.triu)(a)
        for trans, of in ((0, tri), ("T", np.swapaxes(tri, -1, -2)), (2, H(tri))):
            close(L.solve_triangular(a, b, trans, lower), np.linalg.solve(of, b))
    for trans, of in ((0, a), (1, np.swapaxes(a, -1, -2)), (2, H(a))):
        close(L.lu_solve(L.lu_factor(a), b, trans), np.linalg.solve(of, b))
    close(L.solve_triangular(a, b, unit_diagonal=True), np.linalg.solve(np.triu(a, 1) + np.eye(4), b))


def exponential(a):
    """By its series, which small norms allow."""
    total = term = np.eye(a.shape[-1])
    for k in range(1, 60):
        term = term @ a / k
        total = total + term
    return total


@KINDS
def test_functions_of_stacks(kind):
    a, e = draw(kind, 2, 4, 4), draw(kind, 2, 4, 4)
    close(L.expm(a), exponential(a), atol=1e-8)
    close(L.expm(np.triu(a), upper_triangular=True), exponential(np.triu(a)), atol=1e-8)
    both = np.block([[a, e], [np.zeros_like(a), a]])
    value, moved = L.expm_frechet(a, e)
    close(value, exponential(a), atol=1e-8)
    close(moved, exponential(both)[..., :4, 4:], atol=1e-8)
    root = np.asarray(L.sqrtm(a))
    close(root @ root, a)
    assert np.linalg.eigvals(root).real.min() > -1e-12
    close(L.funm(a, lnp.exp), exponential(a), atol=1e-7)
    f, error = L.funm(a, lnp.sin, disp=False)
    close(f, (exponential(1j * a) - exponential(-1j * a)) / 2j, atol=1e-7)
    assert error.shape == (2,) and 0 < float(error.max()) < 1e-12
    small = np.float32(a.real)
    assert L.expm(small).dtype == np.float32 and L.sqrtm(small).dtype == np.complex64
    np.testing.assert_allclose(L.expm(small), exponential(a.real), rtol=2e-4, atol=2e-5)


def test_functions_at_their_edges():
    assert np.isnan(L.expm(np.eye(2) * -1e6)).all() and not np.isnan(L.expm(-np.eye(2) * 1e5)).any()
    big = np.array([[0.0, 1e4], [-1e4, 0.0]])
    close(L.expm(big), [[np.cos(1e4), np.sin(1e4)], [-np.sin(1e4), np.cos(1e4)]], atol=1e-7)
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
        close(L.expm(np.zeros(shape)), np.zeros(shape))
        close(L.expm_frechet(np.zeros(shape), np.zeros(shape), compute_expm=False), np.zeros(shape))
    close(L.expm(np.diag([1e3, -1e3]) * 0.5), np.diag([np.exp(500.0), 0.0]))
    close(L.sqrtm(np.zeros((2, 2))), np.zeros((2, 2)))
    assert np.isnan(L.sqrtm(np.array([[0.0, 1.0], [0.0, 0.0]]))).any()
    close(L.funm(np.array([[1.0, 1.0], [0.0, 1.0]]), lnp.exp), np.e * np.array([[1, 1], [0, 1]]))
    close(L.funm(np.eye(3), lnp.exp), np.e * np.eye(3))
    three = L.funm(np.eye(3) + np.eye(3, k=1), lnp.exp)
    assert np.isnan(three).any(), "three equal eigenvalues give NaN, not a guess"
    between = L.funm(np.diag([1.0, 2.0, 1.0]) + np.eye(3, k=1), lnp.exp)
    assert np.isnan(between).any(), "so are two with another one between them"
    apart = L.funm(np.diag([1.0, 2.0, 1.0]) + np.diag([0.0, 3.0], 1), lnp.exp)
    close(apart, [[np.e, 0, 0], [0, np.e ** 2, 3 * (np.e ** 2 - np.e)], [0, 0, np.e]])


def test_tridiagonal():
    d, e = draw("float", 2, 30), draw("float", 2, 29)
    full = np.stack([np.diag(x) + np.diag(y, 1) + np.diag(y, -1) for x, y in zip(d, e)])
    wanted = np.linalg.eigvalsh(full)
    close(L.eigh_tridiagonal(d, e, eigvals_only=True), wanted, atol=1e-13)
    close(L.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=[3, 5]), wanted[:, 3:6], atol=1e-13)
    w, v = map(np.asarray, L.eigh_tridiagonal(d, e, select="i", select_range=(1, 4)))
    close(full @ v, v * w[:, None])
    close(L.eigh_tridiagonal(d[0, :1], e[0, :0], eigvals_only=True), d[0, :1])
    close(L.eigh_tridiagonal(np.zeros(4), np.zeros(3), eigvals_only=True), np.zeros(4))
    small = L.eigh_tridiagonal(np.float32(d), np.float32(e), eigvals_only=True)
    np.testing.assert_allclose(small, wanted, atol=1e-5)
    check_grads(lambda d, e: L.eigh_tridiagonal(d, e, eigvals_only=True), (d[0, :4], e[0, :3]), 2)


def test_made_matrices():
    close(L.hilbert(3), 1 / (np.arange(3)[:, None] + np.arange(3) + 1))
    close(L.toeplitz(np.array([1 + 1j, 2 + 3j])), [[1 + 1j, 2 - 3j], [2 + 3j, 1 + 1j]])
    close(L.toeplitz(np.arange(3), np.array([9, 5, 6, 7])), [[0, 5, 6, 7], [1, 0, 5, 6], [2, 1, 0, 5]])
    assert L.toeplitz(np.ones((2, 1, 3)), np.ones((4, 5))).shape == (2, 4, 3, 5) and L.toeplitz(np.zeros(0)).shape == (0, 0)
    close(L.block_diag(np.ones((2, 0)), [5, 6], 7.0), [[0, 0, 0], [0, 0, 0], [5, 6, 0], [0, 0, 7]])
    close(L.block_diag(), np.zeros((1, 0)))


def test_derivatives():
    a = draw("float", 3, 3)
    h = a @ a.T + np.eye(3)
    b = draw("float", 3)
    for f, args in ((lambda x: L.cholesky(x), (h,)), (lambda x: L.solve(x, b, assume_a="pos"), (h,)),
                    (lambda x, y: L.cho_solve(L.cho_factor(x), y), (h, b)),
                    (lambda x, y: L.lu_solve(L.lu_factor(x), y), (a, b)),
                    (lambda x: L.expm(x), (a,)), (lambda x: L.sqrtm(x), (h,)), (lambda x: L.polar(x), (a,)),
                    (lambda x: L.polar(x[:, :2], "left"), (a,)), (lambda x: L.toeplitz(x), (b,)),
                    (lambda x, y: L.expm_frechet(x, y), (a, a.T)),
                    (lambda x: L.eigh(x, np.diag([1.0, 2.0, 4.0]), eigvals_only=True), (h,))):
        check_grads(f, args, 2)
    check_grads(lambda x: L.expm(x), (draw("complex", 3, 3),), 1)
    assert hessian(lambda x: L.expm(x * a).sum())(0.3).shape == ()
    close(grad(lambda x: L.expm(x).trace())(np.diag([500.0, 0.0])), np.diag([np.exp(500.0), 1.0]))
    stack = draw("float", 2, 3, 3)
    close(vmap(L.expm)(stack), L.expm(stack))
    close(jit(vmap(lambda x: L.sqrtm(x)))(stack), L.sqrtm(stack))
    for f in (lambda x: L.schur(x)[0].sum(), lambda x: L.hessenberg(x).sum()):
        with pytest.raises(MissingRuleError):
            grad(f)(a)


@pytest.mark.parametrize("call, error, words", [
    (lambda: L.cholesky(np.ones((2, 3))), ShapeError, r"cholesky: expected square.*\[2,3\]"),
    (lambda: L.cho_factor(np.ones(3)), ShapeError, r"cho_factor: .*\[3\]"),
    (lambda: L.solve(np.eye(3), np.ones(2)), ShapeError, r"solve: expected a .*\[3,3\].*\[2\]"),
    (lambda: L.solve(np.eye(3), np.ones(3), assume_a="diagonal"), ValueError, "assume_a must be.*'diagonal'"),
    (lambda: L.solve_triangular(np.eye(3), np.ones(3), trans=3), ValueError, "trans must be.*3"),
    (lambda: L.cho_solve(np.eye(3), np.ones(3)), TypeError, "c_and_lower must be the pair"),
    (lambda: L.lu_solve((np.eye(3), np.ones(3)), np.ones(3)), ShapeError, "piv, integers"),
    (lambda: L.qr(np.eye(3), mode="raw"), ValueError, "mode must be.*'raw'"),
    (lambda: L.eigh(np.eye(3), eigvals=(0, 1)), NotImplementedError, "eigvals is not available"),
    (lambda: L.eigh(np.eye(3), np.eye(2)), ShapeError, "of one size"),
    (lambda: L.schur(np.eye(3), "half"), ValueError, "output must be.*'half'"),
    (lambda: L.polar(np.eye(3), "up"), ValueError, "side must be.*'up'"),
    (lambda: L.sqrtm(np.eye(3), 2), NotImplementedError, "blocksize=2"),
    (lambda: L.funm(np.eye(3), 2), TypeError, "func must be a function"),
    (lambda: L.funm(np.eye(3), lnp.sum), ShapeError, "func must return a value for each"),
    (lambda: L.expm_frechet(np.eye(3), np.eye(2)), ShapeError, "of one shape"),
    (lambda: L.eigh_tridiagonal(np.ones(3), np.ones(3)), ShapeError, r"e \[..., n - 1\]"),
    (lambda: L.eigh_tridiagonal(np.ones(3), 1j * np.ones(2)), DTypeError, "real numbers"),
    (lambda: L.eigh_tridiagonal(np.ones(3), np.ones(2), select="v"), NotImplementedError, "select='v'"),
    (lambda: L.eigh_tridiagonal(np.ones(3), np.ones(2), select="i", select_range=(1, 3)), ValueError, "first <= last < 3"),
    (lambda: L.block_diag(np.ones((1, 2, 3))), ShapeError, "at most two axes.*position 0"),
    (lambda: L.hilbert(-1), ValueError, "got -1"),
    (lambda: L.hilbert(1.5), TypeError, "1.5")])
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_lists_of_rows_are_matrices():
    rows = [[2., 1.], [1., 3.]]
    for call in (L.cholesky, L.det, L.inv, L.eigh, lambda a: L.qr(a)[1], lambda a: L.lu(a)[2], lambda a: L.solve(a, [1., 2.]),
                 lambda a: L.solve_triangular(a, [1., 2.]), lambda a: L.svd(a, compute_uv=False), lambda a: L.cho_factor(a)[0]):
        np.testing.assert_allclose(*[call(a)[0] if call is L.eigh else call(a) for a in (rows, np.array(rows))])
