"""Derivatives of factorizations: second order, identities between factors, and missing derivatives."""
import numpy as np
import pytest
from lamina_autodiff import grad, jvp, vjp
from lamina_autodiff.testing import check_grads
from lamina_ir import MissingRuleError, config, prims
from lamina_tracing import lax
from lamina_tracing.extend import bind
from lamina_tracing.lax import factorizations as linalg

RNG = np.random.default_rng(1)


def draw(complex_, *shape):
    x = RNG.normal(size=shape)
    return x + 1j * RNG.normal(size=shape) if complex_ else x


def product(a, b):
    return lax.dot_general(a, b, (((1,), (0,)), ((), ())))


def adjoint(a):
    return lax.conj(lax.transpose(a, (1, 0))) if np.iscomplexobj(np.zeros(0, a.dtype)) else lax.transpose(a, (1, 0))


@pytest.fixture(autouse=True)
def x64():
    """Run each test in 64-bit mode."""
    with config.enable_x64(True):
        yield


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("rebuild, shape", [
    (lambda a: product(*linalg.qr(a, full_matrices=False)), (4, 3)),
    (lambda a: product(*linalg.qr(a)), (3, 4)),
    (lambda a: (lambda u, s, vh: product(lax.mul(u, lax.broadcast_in_dim(lax.convert_element_type(s, u.dtype), u.shape,
                                                                         (1,))), vh))(
        *linalg.svd(a, full_matrices=False)), (4, 3)),
])
def test_derivative_of_product_of_factors_is_identity(complex_, rebuild, shape):
    a, t = draw(complex_, *shape), draw(complex_, *shape)
    out, tangent = jvp(rebuild, (a,), (t,))
    np.testing.assert_allclose(out, a, atol=1e-10)
    np.testing.assert_allclose(tangent, t, atol=1e-9)
    np.testing.assert_allclose(vjp(rebuild, a)[1](t)[0], t, atol=1e-9)


@pytest.mark.parametrize("complex_", [False, True])
def test_derivative_of_squared_cholesky_factor_is_identity(complex_):
    b = draw(complex_, 3, 3)
    a = b @ np.conj(b.T) + np.eye(3)
    t = b + np.conj(b.T)
    tangent = jvp(lambda a: (lambda l: product(l, adjoint(l)))(linalg.cholesky(a)), (a,), (t,))[1]
    np.testing.assert_allclose(tangent, t, atol=1e-9)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("fun, shape", [
    (lambda a: linalg.lu(a)[0], (3, 3)), (lambda a: linalg.lu(a)[0], (4, 2)),
    (lambda a: linalg.qr(a, full_matrices=False)[1], (3, 3)),
    (lambda a: linalg.eigh(a)[1], (3, 3)), (lambda a: linalg.svd(a, compute_uv=False), (4, 3)),
    (lambda a: lax.abs(linalg.eig(a)[2]), (3, 3)),
])
def test_second_derivatives(complex_, fun, shape):
    check_grads(fun, (draw(complex_, *shape) + 3 * np.diag(np.arange(1.0, 1 + max(shape)))[:shape[0], :shape[1]],),
                order=2, eps=1e-5, rtol=1e-3, atol=1e-3)


def test_derivative_of_trace_of_powers_through_eigenvalues():
    a = draw(False, 4, 4)
    grads = grad(lambda a: lax.reduce_sum(lax.real(lax.integer_pow(
        linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0], 3)), (0,)))(a)
    np.testing.assert_allclose(grads, 3 * (a @ a).T, atol=1e-8)


@pytest.mark.parametrize("kind, n", [("FFT", 5), ("IFFT", 4), ("RFFT", 6), ("RFFT", 5), ("IRFFT", 6), ("IRFFT", 5)])
def test_fft_derivatives_to_second_order(kind, n):
    x = draw(kind != "RFFT", 2, n // 2 + 1 if kind == "IRFFT" else n)
    check_grads(lambda x: lax.abs(lax.fft(x, kind, (n,))), (x,), order=2, eps=1e-5, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("fun", [linalg.schur, linalg.hessenberg, linalg.tridiagonal, linalg.geqrf])
def test_missing_rule_errors_name_alternative(fun):
    with pytest.raises(MissingRuleError, match="use lax.linalg"):
        jvp(fun, (np.eye(3),), (np.eye(3),))


def test_equal_eigenvalues_have_no_finite_vector_derivative():
    with np.errstate(all="ignore"):
        tangent = jvp(lambda a: linalg.eigh(a)[0], (np.eye(2),), (np.ones((2, 2)),))[1]
    assert not np.isfinite(tangent).all()


def _rotation(n, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


def _svd_norm(a):
    """The norm of the product of an SVD's factors."""
    s, u, vh = bind(prims.svd_p, a, compute_uv=True, full_matrices=False)
    made = product(lax.mul(u, lax.broadcast_in_dim(s, u.shape, (1,))), vh)
    return lax.sqrt(lax.reduce_sum(lax.square(made), (0, 1)))


@pytest.mark.parametrize("a", [
    np.eye(3), _rotation(3, 0), np.diag([2.0, 2, 1]), _rotation(3, 1) @ np.diag([2.0, 2, 1]) @ _rotation(3, 2),
    np.diag([1.0, 0, 0]), _rotation(3, 1)[:, :1] @ _rotation(3, 2)[:1], np.eye(4, 2), np.eye(2, 3) * 2,
    _rotation(4, 3)[:, :2] @ _rotation(2, 1)],
    ids=["eye", "rotation", "diagonal", "rotated", "rank-1", "rotated-rank-1", "tall", "wide", "rotated-tall"])
def test_norm_of_svd_product_has_a_gradient_at_equal_singular_values(a):
    wanted = a / np.linalg.norm(a)
    np.testing.assert_allclose(grad(_svd_norm)(a), wanted, atol=1e-12)
    _, tangent = jvp(_svd_norm, (a,), (a,))
    np.testing.assert_allclose(tangent, np.linalg.norm(a), rtol=1e-12)


@pytest.mark.parametrize("q", [np.eye(3), _rotation(3, 4)], ids=["diagonal", "rotated"])
def test_vector_of_a_simple_eigenvalue_has_a_gradient_next_to_a_double_one(q):
    a, c = q @ np.diag([1.0, 1, 3]) @ q.T, np.arange(9.0).reshape(3, 3)
    c = c + c.T

    def quadratic(a):  # v^T c v
        v, _ = bind(prims.eigh_p, a, lower=True)
        last = lax.slice_in_dim(v, 2, 3, axis=1)
        return lax.reduce_sum(lax.mul(product(c, last), last), (0, 1))

    v = q[:, 2]
    rest = np.eye(3) - np.outer(v, v)
    wanted = rest @ c @ np.outer(v, v)  # first order perturbation: dv = (1 - v v^T) dA v / (3 - 1)
    found = np.asarray(grad(quadratic)((a + a.T) / 2))
    np.testing.assert_allclose((found + found.T) / 2, (wanted + wanted.T) / 2, atol=1e-12)


def _spectral(f, c):
    """The inner product of c with V f(w) V^T."""
    def total(a):
        v, w = bind(prims.eigh_p, a, lower=True)
        scaled = lax.mul(v, lax.broadcast_in_dim(f(w), v.shape, (1,)))
        return lax.reduce_sum(lax.mul(c, product(scaled, lax.transpose(v, (1, 0)))), (0, 1))
    return total


@pytest.mark.parametrize("f", [lambda w: w, lax.log, lambda w: lax.mul(w, w)])
def test_gradient_is_nan_where_cotangents_do_not_determine_it(f):
    """At equal eigenvalues f'(w) would be needed; with f = log at 1 all cotangents of the vectors are 0."""
    c = np.arange(9.0).reshape(3, 3)
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.asarray(grad(_spectral(f, c))(np.eye(3)))).any()


@pytest.mark.parametrize("f", [lambda w: w, lax.exp, lambda w: lax.mul(w, w)])
@pytest.mark.parametrize("seed", range(4))
def test_gradient_at_eigenvalues_equal_up_to_rounding_is_nan_not_wrong(f, seed):
    c, q = np.arange(9.0).reshape(3, 3), _rotation(3, seed)
    with np.errstate(all="ignore"):
        assert np.isnan(np.asarray(grad(_spectral(f, c))((q @ q.T + (q @ q.T).T) / 2))).any()


@pytest.mark.parametrize("power", [2.0, 3.0])
@pytest.mark.parametrize("q", [np.eye(3), _rotation(3, 4), _rotation(3, 5)], ids=["diagonal", "rotated", "other"])
def test_second_derivative_within_an_eigenspace_is_not_finite_and_wrong(q, power):
    a = q @ np.diag([1.0, 1, 2]) @ q.T
    a = (a + a.T) / 2

    def total(a):
        return lax.reduce_sum(lax.pow(bind(prims.eigh_p, a, lower=True)[1], power), (0,))

    for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (2, 2)):
        direction = (np.outer(q[:, i], q[:, j]) + np.outer(q[:, j], q[:, i])) / 2
        with np.errstate(all="ignore"):
            found = np.asarray(jvp(grad(total), (a,), (direction,))[1])
        if np.isfinite(found).all():  # d^2 tr a^p: p sum a^k x a^(p - 2 - k)
            products = [np.linalg.matrix_power(a, k) @ direction @ np.linalg.matrix_power(a, int(power) - 2 - k)
                        for k in range(int(power) - 1)]
            np.testing.assert_allclose((found + found.T) / 2, power * sum(products), atol=1e-6)
        else:  # the direction turns the vectors, up to rounding
            assert (i, j) == (0, 1) or not np.array_equal(q, np.eye(3))


def test_gradient_of_eigenvalues_alone_exists_at_equal_ones():
    def total(a):
        return lax.reduce_sum(bind(prims.eigh_p, a, lower=True)[1], (0,))

    np.testing.assert_allclose(grad(total)(np.eye(3, dtype=np.float32)), np.eye(3))


def test_polar_factor_has_a_tangent_at_equal_singular_values():
    turn = np.array([[0.0, 1, 2], [-1, 0, 3], [-2, -3, 0]])

    def polar(a):
        _, u, vh = bind(prims.svd_p, a, compute_uv=True, full_matrices=False)
        return product(u, vh)

    np.testing.assert_allclose(jvp(polar, (np.eye(3),), (turn,))[1], turn, atol=1e-12)


_SINGULAR = {"rank-2": np.array([[1.0, 2, 3], [4, 5, 9], [7, 8, 15]]),
             "last-column-0": np.array([[1.0, 2, 0], [3, 4, 0], [5, 7, 0]]), "wide": np.array([[1.0, 2, 3], [2, 4, 7]])}


@pytest.mark.parametrize("a", _SINGULAR.values(), ids=_SINGULAR)
@pytest.mark.parametrize("fun", [lambda a: linalg.qr(a, full_matrices=False), lambda a: linalg.lu(a)[:1]], ids=["qr", "lu"])
def test_factors_of_singular_matrix_have_derivatives_if_the_last_vector_is_determined(fun, a):
    x, step = np.random.default_rng(1).normal(size=a.shape), 1e-6
    _, tangents = jvp(fun, (a,), (x,))
    weights = [np.cos(np.arange(t.size)).reshape(t.shape) for t in tangents]

    def total(a):
        return sum(lax.reduce_sum(lax.mul(y, w), (0, 1)) for y, w in zip(fun(a), weights))

    for found, above, below in zip(tangents, fun(a + step * x), fun(a - step * x)):
        np.testing.assert_allclose(found, (np.asarray(above) - np.asarray(below)) / (2 * step), atol=1e-6)
    np.testing.assert_allclose(np.sum(np.asarray(grad(total)(a)) * x), sum(np.sum(t * w) for t, w in zip(tangents, weights)),
                               rtol=1e-8)
