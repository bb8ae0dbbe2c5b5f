"""Derivatives of functions with known derivatives: values, trees, arguments, types."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import grad, hessian, jacfwd, jacobian, jacrev, jvp, linearize, value_and_grad, vjp
from lamina_ir import dtypes
from lamina_tracing import jit, lax

X = np.float32([0.5, -1.0, 2.0])
M = np.float32([[1, 2, 3], [4, 5, 6]])


def close(got, want, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=rtol, atol=atol)


def total(x):
    return lax.reduce_sum(x, tuple(range(np.ndim(x))))


def energy(x):
    return total(lax.mul(x, x))


def loss(w, x, scale=1.0):
    return lax.mul(total(lax.mul(w["a"], x)), lax.mul(w["b"], scale))


W = {"a": X, "b": np.float32(2)}

SCALAR = {
    "square": (lambda x: lax.mul(x, x), lambda x: 2 * x),
    "sin": (lax.sin, np.cos), "exp": (lax.exp, np.exp), "log": (lambda x: lax.log(lax.add(x, 3.0)), lambda x: 1 / (x + 3)),
    "tanh": (lax.tanh, lambda x: 1 - np.tanh(x) ** 2), "neg": (lax.neg, lambda x: -np.ones_like(x)),
    "quotient": (lambda x: lax.div(x, lax.add(x, 3.0)), lambda x: 3 / (x + 3) ** 2),
    "of two branches": (lambda x: lax.max(x, 0.0), lambda x: (x > 0) * 1.0),
    "chain": (lambda x: lax.sin(lax.exp(lax.mul(x, 2.0))), lambda x: np.cos(np.exp(2 * x)) * 2 * np.exp(2 * x)),
    "cube": (lambda x: lax.integer_pow(x, 3), lambda x: 3 * x ** 2),
}


@pytest.mark.parametrize("how", ["jvp", "linearize", "vjp", "grad", "jit of grad", "grad of jit"])
@pytest.mark.parametrize("name", SCALAR)
def test_every_transformation_returns_known_derivative(name, how):
    f, derivative = SCALAR[name]
    one = np.ones_like(X)
    got = {
        "jvp": lambda: jvp(f, (X,), (one,))[1],
        "linearize": lambda: linearize(f, X)[1](one),
        "vjp": lambda: vjp(f, X)[1](one)[0],
        "grad": lambda: grad(lambda x: total(f(x)))(X),
        "jit of grad": lambda: jit(grad(lambda x: total(f(x))))(X),
        "grad of jit": lambda: grad(jit(lambda x: total(f(x))))(X),
    }[how]()
    close(got, derivative(X))
    assert np.asarray(got).dtype == np.float32


def test_values_are_returned_with_derivatives():
    value, tangent = jvp(lax.sin, (X,), (X,))
    close(value, np.sin(X)), close(tangent, X * np.cos(X))
    value, gradient = value_and_grad(energy)(X)
    close(value, (X * X).sum()), close(gradient, 2 * X)
    value, push = linearize(lax.sin, X)
    close(value, np.sin(X))
    value, pull = vjp(lax.sin, X)
    close(value, np.sin(X)), close(pull(X)[0], X * np.cos(X))


def test_gradient_has_tree_of_argument():
    g = grad(loss)(W, X)
    assert set(g) == {"a", "b"}
    close(g["a"], 2 * X), close(g["b"], (X * X).sum())


def test_argnums_tuple_returns_tuple():
    dw, dx = grad(loss, argnums=(0, 1))(W, X)
    close(dx, 2 * X), close(dw["a"], 2 * X)
    for n in (1, -1):
        close(grad(loss, argnums=n)(W, X), 2 * X)
        close(value_and_grad(loss, argnums=n)(W, X)[1], 2 * X)
    for n in (0, -2):
        close(grad(loss, argnums=n)(W, X)["a"], 2 * X)
    last, = grad(loss, argnums=(1,))(W, X)
    close(last, 2 * X)


def test_keyword_arguments_are_not_differentiated():
    close(grad(loss)(W, X, scale=10.0)["b"], 10 * (X * X).sum())


def test_auxiliary_results_are_returned_unchanged():
    g, aux = grad(lambda x: (energy(x), {"n": 3, "x": x}), has_aux=True)(X)
    close(g, 2 * X), close(aux["x"], X)
    assert aux["n"] == 3
    (value, aux), g = value_and_grad(lambda x: (energy(x), "words"), has_aux=True)(X)
    assert aux == "words"
    close(value, (X * X).sum())
    value, tangent, aux = jvp(lambda x: (lax.neg(x), x), (X,), (X,), has_aux=True)
    close(tangent, -X), close(aux, X)


def test_unused_argument_has_zero_gradient():
    close(grad(lambda x, y: total(y), argnums=0)(X, X), np.zeros(3))
    close(jvp(lambda x: M, (X,), (X,))[1], np.zeros((2, 3)))


def test_cotangents_of_value_used_twice_are_added():
    close(grad(lambda x: lax.add(lax.mul(x, x), x))(np.float32(3)), 7)


def test_jacobian_axes_are_result_then_argument():
    f = lambda x: lax.dot(M, lax.mul(x, x))
    want = M * (2 * X)
    for make in (jacfwd, jacrev, jacobian):
        j = make(f)(X)
        assert np.shape(j) == (2, 3)
        close(j, want)


def test_jacobians_of_trees():
    def f(p):
        return {"s": lax.mul(p["x"], p["k"]), "t": lax.neg(p["k"])}

    for make in (jacfwd, jacrev):
        j = make(f)({"x": X, "k": np.float32(2)})
        close(j["s"]["x"], 2 * np.eye(3)), close(j["s"]["k"], X)
        close(j["t"]["x"], np.zeros(3)), close(j["t"]["k"], -1)


def test_jacobians_of_several_arguments():
    for make in (jacfwd, jacrev):
        a, b = make(lambda x, y: lax.mul(x, y), argnums=(0, 1))(X, 2 * X)
        close(a, np.diag(2 * X)), close(b, np.diag(X))


def test_gradients_and_jacobians_of_matrix_functions():
    a = np.float32([[2, 1], [0.5, 3]])
    product = lambda m: lax.dot(m, m)
    j = np.asarray(jacfwd(product)(a))
    want = np.einsum("ik,lj->ijkl", np.eye(2), a) + np.einsum("ik,jl->ijkl", a, np.eye(2))
    assert j.shape == (2, 2, 2, 2)
    close(j, want)
    close(jacrev(product)(a), want)
    close(grad(lambda m: total(lax.dot(m, m)))(a), want.sum((0, 1)))


def test_hessian_of_known_function():
    close(hessian(lambda x: total(lax.integer_pow(x, 3)))(X), np.diag(6 * X), atol=1e-5)
    a = np.float32([[2, 1, 0], [1, 3, 1], [0, 1, 4]])
    close(hessian(lambda x: lax.dot(x, lax.dot(a, x)))(X), a + a.T, atol=1e-5)


def test_gradient_of_real_function_of_complex_numbers():
    """u(x + iy) = x y^2: the gradient is u_x - i u_y."""
    z = np.complex64(3 + 2j)
    g = grad(lambda z: lax.mul(lax.real(z), lax.mul(lax.imag(z), lax.imag(z))))(z)
    close(g, 4 - 12j)
    assert np.asarray(g).dtype == np.complex64


def test_holomorphic_functions_have_complex_derivatives():
    z = np.complex64(1 + 2j)
    close(grad(lambda z: lax.mul(z, z), holomorphic=True)(z), 2 * z)
    close(jacfwd(lax.sin, holomorphic=True)(z), np.cos(z))
    close(jacrev(lax.exp, holomorphic=True)(z), np.exp(z))
    close(jvp(lax.exp, (z,), (np.complex64(1j),))[1], 1j * np.exp(z))


def test_integers_have_float0_tangents():
    value, tangent = jvp(lambda n, x: (n, x), (np.int32(3), np.float32(2)), (np.zeros((), dtypes.float0), np.float32(1)))
    assert int(value[0]) == 3 and np.asarray(tangent[0]).dtype == dtypes.float0 and float(tangent[1]) == 1
    g = grad(lambda n, x: lax.mul(x, 2.0), allow_int=True)(np.int32(3), np.float32(1))
    assert np.asarray(g).dtype == dtypes.float0
    dn, dx = vjp(lambda n, x: lax.mul(x, lax.convert_element_type(n, "float32")), np.int32(3), X)[1](X)
    assert np.asarray(dn).dtype == dtypes.float0
    close(dx, 3 * X)


def test_gradient_keeps_low_precision_dtype():
    x = X.astype(np.float16)
    g = grad(lambda x: energy(x))(x)
    assert np.asarray(g).dtype == np.float16
    close(np.asarray(g, np.float32), 2 * X, rtol=1e-2)


def test_intermediate_values_convert_to_python_numbers():
    def f(x):
        return lax.mul(x, 3.0) if x > 1 else lax.neg(x)

    close([grad(f)(np.float32(2)), grad(f)(np.float32(0)), jvp(f, (2.0,), (1.0,))[1]], [3, -1, 3])
