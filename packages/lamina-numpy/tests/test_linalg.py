"""`numpy.linalg` compared with NumPy: values over kinds and stacks, derivatives, matrices without a result."""
from __future__ import annotations

import itertools

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad, hessian, jacrev, jvp, vjp
from lamina_autodiff.testing import check_grads
from lamina_batching import vmap
from lamina_ir import ShapeError, config
from lamina_tracing import hooks, jit

L, N = lnp.linalg, np.linalg
RNG = np.random.default_rng(0)


class OtherEvaluator:
    """Stands for a compiler, for which programs share the factors of a matrix."""

    def __init__(self):
        runs = hooks.NumPyEvaluator()
        self.primitive, self.program, self.array = runs.primitive, runs.program, runs.array


@pytest.fixture(autouse=True, params=[None, OtherEvaluator])
def wide(request):
    global RNG
    old, RNG = hooks.evaluator, np.random.default_rng(0)  # each test draws the same arrays with both
    if request.param:
        hooks.set_evaluator(request.param())
    try:
        with config.enable_x64(True):
            yield
    finally:
        if request.param:
            hooks.set_evaluator(old)


def draw(kind, *shape):
    x = RNG.normal(size=shape)
    return x + 1j * RNG.normal(size=shape) if kind == "complex" else x


def differentiate(f, d, times):
    return f if not times else differentiate(lambda a: jvp(f, (a,), (d,))[1], d, times - 1)


def close(got, wanted, atol=1e-10):
    assert np.shape(got) == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, atol=atol, rtol=1e-9)


@pytest.mark.parametrize("kind", ["float", "complex"])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_square_matrices(kind, batch):
    a = draw(kind, *batch, 4, 4)
    for name in ("inv", "det"):
        close(getattr(L, name)(a), getattr(N, name)(a))
    sign, size = L.slogdet(a)
    wanted = N.slogdet(a)
    close(sign, wanted[0])
    close(size, wanted[1])
    close(L.solve(a, a[..., :2]), N.solve(a, a[..., :2]))
    h = a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(4)
    close(L.cholesky(h), N.cholesky(h))
    close(L.cholesky(h, upper=True), np.conj(np.swapaxes(N.cholesky(h), -1, -2)))
    close(L.eigvalsh(h), N.eigvalsh(h))
    w, v = L.eigh(h)
    close(np.asarray(v) * np.asarray(w)[..., None, :] @ np.conj(np.swapaxes(v, -1, -2)), h)
    close(np.sort_complex(L.eigvals(a)), np.sort_complex(N.eigvals(a)))
    w, v = L.eig(a)
    close(a @ np.asarray(v), np.asarray(v) * np.asarray(w)[..., None, :])
    for n in (-2, 0, 3):
        close(L.matrix_power(a, n), N.matrix_power(a, n), atol=1e-7)


@pytest.mark.parametrize("kind", ["float", "complex"])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 4, 2)])
def test_any_matrices(kind, shape):
    a = draw(kind, *shape)
    close(L.pinv(a), N.pinv(a))
    close(L.svdvals(a), N.svd(a, compute_uv=False))
    u, s, vh = L.svd(a, full_matrices=False)
    close(np.asarray(u) * np.asarray(s)[..., None, :] @ np.asarray(vh), a)
    assert [x.shape for x in L.svd(a)] == [x.shape for x in N.svd(a)]
    for mode in ("reduced", "complete"):
        for got, wanted in zip(L.qr(a, mode), N.qr(a, mode)):
            close(got, wanted)
    close(L.qr(a, "r"), N.qr(a, "r"))
    close(L.matrix_rank(a), N.matrix_rank(a))
    close(L.cond(a), N.cond(a))
    for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        close(L.norm(a, order, axis=(-2, -1)), N.norm(a, order, axis=(-2, -1)))
        close(L.norm(a, order, axis=(-1, -2), keepdims=True), N.norm(a, order, axis=(-1, -2), keepdims=True))


def test_least_squares():
    a, b = draw("float", 5, 3), draw("float", 5, 2)
    for right in (b, b[:, 0]):
        x, residuals, rank, s = L.lstsq(a, right)
        wanted = N.lstsq(a, right, rcond=None)
        close(x, wanted[0])
        close(residuals, wanted[1])
        assert rank == wanted[2]
        close(s, wanted[3])
    a[:, 2] = a[:, 0]
    close(L.lstsq(a, b)[0], N.lstsq(a, b, rcond=None)[0])
    assert L.lstsq(a, b, numpy_resid=True)[1].shape == N.lstsq(a, b, rcond=None)[1].shape
    for rcond, kept in ((-1, 2), (-1.0, 2), (0.5, 1)):  # a negative one is the precision
        d = np.array([1., 1e-3, 1e-18])
        x, _, rank, _ = L.lstsq(np.diag(d), np.ones(3), rcond=rcond)
        close(x, np.where(np.arange(3) < kept, 1 / d, 0.))
        assert rank == kept
    assert L.matrix_rank(a) == 2 and L.matrix_rank(a, 10.0) == 0 and L.matrix_rank(np.ones(3)) == 1


def test_tensors_and_hermitian_forms():
    a = draw("float", 4, 6, 8, 3)
    close(L.tensorinv(a, 2), N.tensorinv(a, 2))
    close(L.tensorsolve(a, np.ones((4, 6))), N.tensorsolve(a, np.ones((4, 6))))
    h = draw("float", 3, 3)
    h = h + h.T
    u, s, vh = L.svd(h, hermitian=True)
    close(s, N.svd(h)[1])
    close(np.asarray(u) * np.asarray(s) @ np.asarray(vh), h)
    close(L.pinv(h, hermitian=True), N.pinv(h))
    close(L.multi_dot([h, h[:, :2], h[:2]]), N.multi_dot([h, h[:, :2], h[:2]]))


def test_stacks_of_no_matrix():
    none = np.zeros((0, 3, 3), np.float32)
    assert L.inv(none).shape == (0, 3, 3) and L.det(none).shape == (0,)
    assert L.solve(none, none[..., :2]).shape == vmap(L.solve)(none, none)[..., :2].shape == (0, 3, 2)
    assert grad(lambda m: L.inv(m).sum())(none).shape == (0, 3, 3)


def test_solve_broadcasts_stacks():
    a, b = draw("float", 3, 4, 4), draw("float", 4)
    close(L.solve(a, b), N.solve(a, b[:, None])[..., 0])
    close(L.solve(a[0], draw("float", 2, 4, 1)).shape, (2, 4, 1))
    close(vmap(L.solve, (None, 0))(a[0], a), N.solve(a[:1], a))


@pytest.mark.parametrize("kind", ["float", "complex"])
@pytest.mark.parametrize("fun, shape", [
    (L.inv, (3, 3)), (L.det, (4, 4)), (L.det, (3, 3)), (lambda a: L.slogdet(a).logabsdet, (4, 4)),
    (L.pinv, (4, 2)), (L.pinv, (2, 4)), (lambda a: L.norm(a, "nuc"), (3, 2)), (L.svdvals, (3, 3)),
    (lambda a: L.solve(a, a[:, 0] * 2), (3, 3)), (lambda a: L.lstsq(a, a[:, 0] ** 2)[0], (4, 2)), (L.cond, (3, 3)),
    (lambda a: L.pinv(a, 0.5), (4, 3)), (lambda a: L.pinv(a, 0.5), (2, 3, 4)),
    (lambda a: L.pinv(a[:, :2] @ a[2:], 1e-6), (4, 4)),
], ids=range(14))
def test_derivatives(kind, fun, shape):
    check_grads(fun, (draw(kind, *shape),), order=2, eps=1e-5, rtol=1e-3, atol=1e-3)


def test_pseudo_inverses_by_a_limit_have_derivatives_where_singular_values_are_equal():
    for a in (np.eye(3), np.diag([1.0, 1.0, 0.2, 0.2])):
        close(hessian(lambda a: L.pinv(a, 0.1).sum())(a), hessian(lambda a: L.pinv(a).sum())(a))
        assert np.isfinite(hessian(lambda a: L.pinv(a, 0.5).sum())(a)).all()


@pytest.mark.parametrize("rank, near", [(4, 1.0), (4, 1e-6), (2, 1e-4)])
def test_second_derivatives_of_pseudo_inverses_lose_the_condition_once(rank, near):
    """Compared with those of B C of full rank, by inverses."""
    b, c, db, dc = draw("float", 5, rank), draw("float", rank, 4), draw("float", 5, rank), draw("float", rank, 4)
    b = N.qr(b)[0] * np.r_[np.ones(rank - 1), near]
    whole = lambda b, c: L.inv(b.T @ b) @ b.T
    twice = lambda f: differentiate(lambda t: f(b + t * db, c + t * dc), np.ones(()), 2)(np.zeros(()))
    wanted = twice(lambda b, c: lnp.matmul(whole(c.T, b.T).T, whole(b, c)))
    bound = 1e-15 * N.cond(c) ** 2 / near  # `wanted` inverts C C^T, which has the squared condition of C
    for rtol in (None, 1e-12):
        found = twice(lambda b, c: L.pinv(b @ c, rtol))
        assert np.abs(found - wanted).max() < bound * np.abs(wanted).max()


def test_pseudo_inverses_of_hermitian_matrices_have_derivatives_where_eigenvalues_are_equal():
    a, d = np.diag([1.0, 1.0, 0.2, -0.2]), draw("float", 4, 4)
    for rtol in (None, 0.1, 0.5):
        close(differentiate(lambda a: L.pinv(a, rtol, True), d, 2)(a),
              differentiate(lambda a: L.pinv(a, rtol), d + d.T, 2)(a) / 4)


def test_determinants_of_singular_matrices_have_derivatives():
    a = draw("float", 5, 5)
    a[4] = a[3]
    minors = [[(-1) ** (i + j) * N.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(5)] for i in range(5)]
    close(grad(L.det)(a), minors)
    assert np.isfinite(hessian(L.det)(np.eye(5))).all()


@pytest.mark.parametrize("rank", [4, 3, 2, 0])
@pytest.mark.parametrize("kind", ["float", "complex"])
def test_second_derivatives_of_determinants_are_minors_of_two_rows_for_every_rank(rank, kind):
    with config.enable_x64(True):
        a = np.array(draw(kind, 4, rank) @ draw(kind, rank, 4), np.complex128 if kind == "complex" else np.float64)
        step = lambda b, i, j: jvp(lambda x: L.det(x), (b,), (np.eye(4)[i][:, None] * np.eye(4)[j] + 0 * b,))[1]
        for (i, j), (k, l) in (((0, 1), (2, 3)), ((1, 1), (0, 0)), ((3, 0), (1, 2))):
            found = jvp(lambda x: step(x, i, j), (a,), (np.eye(4)[k][:, None] * np.eye(4)[l] + 0 * a,))[1]
            rest = N.det(np.delete(np.delete(a, [i, k], 0), [j, l], 1))
            sign = (-1) ** (i + j + k + l) * (1 if (i < k) == (j < l) else -1)
            np.testing.assert_allclose(found, sign * rest, 1e-10, 1e-13)
        if kind == "float":
            np.testing.assert_allclose(jacrev(jacrev(L.det))(a), hessian(L.det)(a), 1e-10, 1e-13)


@pytest.mark.parametrize("a", [
    np.eye(5), *(np.diag([3.0] * r + [0.0] * (5 - r)) for r in range(5)), "float", "complex"], ids=str)
def test_four_derivatives_of_determinants_change_one_row_each(a):
    """Where singular values are equal too: that of order k along d is k! times what replacing k rows by those of d gives."""
    a, d = (draw(a, 5, 5), draw(a, 5, 5)) if isinstance(a, str) else (a, draw("float", 5, 5))
    for k, factor in ((2, 2), (3, 6), (4, 24)):
        rows = [np.isin(np.arange(5), some)[:, None] for some in itertools.combinations(range(5), k)]
        close(differentiate(L.det, d, k)(a), factor * sum(N.det(np.where(some, d, a)) for some in rows), 1e-9)
    if a.dtype == np.float64:
        close(grad(lambda a: (grad(lambda a: (grad(L.det)(a) * d).sum())(a) * d).sum())(a).ravel() @ d.ravel(),
              differentiate(L.det, d, 3)(a), 1e-9)


def test_matrices_without_a_result():
    zero, bad = np.zeros((2, 2)), np.full((2, 2), np.nan)
    assert not np.isfinite(L.inv(zero)).all() and not np.isfinite(L.solve(zero, np.ones(2))).all()
    assert L.slogdet(np.zeros((4, 4))) == (0, -np.inf) and L.det(np.zeros((4, 4))) == 0
    for fun in (L.inv, L.det, L.cholesky, L.eigvalsh, L.svdvals, L.eigvals, L.pinv):
        assert np.isnan(fun(bad)).any()
    assert L.det(np.zeros((0, 0))) == 1 and L.inv(np.zeros((0, 0))).shape == (0, 0)
    close(L.pinv(zero), zero)
    one = np.diag([1.0, 0.0])
    for p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"):
        close(L.cond(np.stack([zero, one, bad]), p), [np.inf, 0 if p == -2 else np.inf, np.nan])


def test_narrow_and_integer_matrices():
    assert L.inv(np.eye(2, dtype=np.int32)).dtype == np.float32 and L.inv(np.eye(2, dtype=np.int64)).dtype == np.float64
    assert L.solve(np.eye(2, dtype=np.uint64), np.ones(2, np.float32)).dtype == np.float32
    assert L.det(np.eye(4, dtype=np.float16)).dtype == np.float32
    close(jit(L.inv)(np.array([[2, 0], [0, 4]])), [[0.5, 0], [0, 0.25]])


@pytest.mark.parametrize("call, words", [
    (lambda: L.inv(np.ones((2, 3))), "inv: expected square"), (lambda: L.solve(np.eye(2), np.ones(3)), "solve: expected a"),
    (lambda: L.qr(np.eye(2), "economic"), "mode must be"), (lambda: L.eigh(np.eye(2), "X"), "UPLO"),
    (lambda: L.norm(np.eye(2), "nope"), "not a matrix norm"), (lambda: L.slogdet(np.eye(2), method="x"), "method"),
    (lambda: L.tensorinv(np.ones((2, 3)), 1), "tensorinv"), (lambda: L.svdvals(np.ones(3)), "expected matrices"),
])
def test_errors_name_the_function(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_axes_outside_are_refused():
    a, b = np.eye(6, dtype=np.float32).reshape(6, 2, 3), np.ones((2, 3), np.float32)
    close(L.tensorsolve(a, b, [0]), np.linalg.tensorsolve(a, b, (0,)))
    for call in (lambda: L.tensorsolve(a, b, (7,)), lambda: L.cross(np.ones(3), np.ones(3), axis=3)):
        with pytest.raises(ShapeError, match="out of range"):
            call()
    with pytest.raises(TypeError, match="integer"):
        L.matrix_power(np.eye(2), 2.5)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 0)])
@pytest.mark.parametrize("order", [1, 2, np.inf, "fro", "nuc"])
def test_norms_of_matrices_of_nothing_are_zero(shape, order):
    np.testing.assert_array_equal(L.norm(np.ones(shape), order, axis=(-2, -1)), np.zeros(shape[:-2]))


Q3, Q4 = N.qr(np.random.default_rng(1).normal(size=(3, 3)))[0], N.qr(np.random.default_rng(2).normal(size=(4, 4)))[0]


@pytest.mark.parametrize("a", [np.eye(3), Q3, Q3 @ np.diag([2.0, 2, 1]) @ Q3, Q4[:, :2], Q4[:2] * 3],
                         ids=["eye", "rotation", "two-equal", "tall", "wide"])
@pytest.mark.parametrize("kind", ["float", "complex"])
def test_lstsq_has_derivatives_at_equal_singular_values(a, kind):
    random = np.random.default_rng(3)
    b, d = random.normal(size=(len(a), 2)), random.normal(size=a.shape)
    if kind == "complex":
        b, a, d = b * (1 + 2j), a + 0j, d * (2 - 1j)
    solve = jit(lambda a: L.lstsq(a, b)[0])
    for times in (0, 1):
        f = differentiate(solve, d, times)
        with np.errstate(invalid="ignore"):  # the second derivatives of the singular values do not exist
            tangent = jvp(f, (a,), (d,))[1]
        close(tangent, (np.asarray(f(a + 1e-6 * d)) - np.asarray(f(a - 1e-6 * d))) / 2e-6, 1e-6)


@pytest.mark.parametrize("values", [[2.0, 2, 0], [2.0, 0, 0]])
def test_lstsq_of_rank_deficient_matrix_has_the_derivative_of_pinv(values):
    a, b = Q3 @ np.diag(values) @ Q3.T @ Q4[:3, :3], np.random.default_rng(3).normal(size=3)
    a = Q3 @ np.diag(values) @ N.qr(a + np.eye(3))[0]
    inner = np.random.default_rng(4).normal(size=(2, 3, 3))

    def move(t):  # keeps the rank
        turned = [np.eye(3) + t * x for x in inner]
        return turned[0] @ a @ turned[1]

    d = inner[0] @ a + a @ inner[1]
    found = jvp(lambda a: L.lstsq(a, b, 1e-10)[0], (a,), (d,))[1]
    numeric = (N.lstsq(move(1e-6), b, rcond=1e-9)[0] - N.lstsq(move(-1e-6), b, rcond=1e-9)[0]) / 2e-6
    close(found, numeric, 1e-6)
    gradient = grad(lambda a: L.lstsq(a, b)[0].sum())(a)
    close(gradient, grad(lambda a: (L.pinv(a) @ b).sum())(a))


@pytest.mark.parametrize("kind", ["float", "complex"])
@pytest.mark.parametrize("condition", [1, 1e4, 1e8, 1e14, np.inf])
def test_gradients_of_determinants_do_not_depend_on_the_condition(kind, condition):
    u, v = (N.qr(draw(kind, 5, 5))[0] for _ in range(2))
    s = np.array([2, 1.5, 1, 0.5, 1 / condition])
    a = np.stack([u * s @ v, u * (s + 1) @ v])
    minors = [N.det(u) * N.det(v) * np.conj(u) * np.array([np.prod(np.delete(x, i)) for i in range(5)]) @ np.conj(v)
              for x in (s, s + 1)]
    pull = vjp(lambda x: L.det(x), a)[1]
    # det is holomorphic: the cotangent is its derivative, without conjugates.
    close(pull(np.ones(2, a.dtype))[0], np.stack(minors), atol=1e-9)
