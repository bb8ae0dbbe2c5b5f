"""`custom_linear_solve` and `custom_root`: values, derivatives of both modes and orders, auxiliary results, errors."""
import numpy as np
import pytest
from lamina_autodiff import custom_linear_solve, custom_root, grad, jvp, vjp
from lamina_autodiff.testing import check_grads
from lamina_ir import MissingRuleError, config, dumps, loads
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.lax import factorizations as linalg

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 3)) + 3 * np.eye(3)
B = RNG.normal(size=3)


@pytest.fixture(autouse=True)
def x64():
    """Run each test in 64-bit mode."""
    with config.enable_x64(True):
        yield


def times(a, x):
    return lax.dot_general(a, x, (((1,), (0,)), ((), ())))


def back_substitute(a, y, transpose):
    return linalg.triangular_solve(a, y, left_side=True, lower=True, transpose_a=transpose)


def solve_lower(a, b):
    """Solve the system of the lower triangle of a."""
    triangle = lax.mul(a, np.tril(np.ones((3, 3))))
    return custom_linear_solve(lambda x: times(triangle, x), b, lambda f, y: back_substitute(triangle, y, False),
                               lambda f, y: back_substitute(triangle, y, True))


def test_linear_solve_and_its_derivatives():
    np.testing.assert_allclose(solve_lower(A, B), np.linalg.solve(np.tril(A), B))
    check_grads(solve_lower, (A, B), order=2, eps=1e-5, rtol=1e-4, atol=1e-4)
    check_grads(jit(solve_lower), (A, B), order=2, eps=1e-5, rtol=1e-4, atol=1e-4)


def test_solver_is_not_differentiated():
    def solve(f, y):  # Jacobi iteration; its own derivative would be that of three steps
        x = y
        for _ in range(60):
            x = lax.add(x, lax.div(lax.sub(y, f(x)), 4.0))
        return x
    system = np.diag([3.0, 4.0, 5.0]) + 0.5
    def run(a):
        return custom_linear_solve(lambda x: times(a, x), B, solve, symmetric=True)

    tangent = jvp(run, (system,), (np.ones((3, 3)),))[1]
    x = np.linalg.solve(system, B)
    np.testing.assert_allclose(tangent, -np.linalg.solve(system, np.ones((3, 3)) @ x), atol=1e-6)


def test_trees_and_auxiliary_results():
    x, steps = custom_linear_solve(lambda t: {"x": 2.0 * t["x"]}, {"x": 6.0},
                                   lambda f, y: ({"x": y["x"] / 2.0}, {"steps": 1}), symmetric=False, has_aux=True)
    assert x["x"] == 3.0 and steps["steps"] == 1


def test_reverse_mode_without_transpose_solve_is_rejected():
    with pytest.raises(MissingRuleError, match="transpose_solve"):
        grad(lambda b: custom_linear_solve(lambda x: 2.0 * x, b, lambda f, y: y / 2.0))(3.0)


def test_transpose_solve_receives_transposed_function():
    triangle = np.tril(A)

    def run(b):
        return custom_linear_solve(
            lambda x: times(triangle, x), b, lambda f, y: back_substitute(triangle, y, False),
            lambda g, y: lax.add(back_substitute(triangle, y, True), lax.sub(g(y), times(triangle.T, y))))

    np.testing.assert_allclose(vjp(run, B)[1](B)[0], np.linalg.solve(np.tril(A).T, B))


@pytest.mark.parametrize("call, words", [
    (lambda: custom_linear_solve(lambda x: x[0], B, lambda f, y: y), "matvec must return"),
    (lambda: custom_linear_solve(lambda x: x, B, lambda f, y: (y, y)), "solve must return"),
    (lambda: custom_linear_solve(lambda x: x, B, lambda f, y: y, has_aux=True), "must return .result, aux."),
    (lambda: custom_root(lambda x: (x, x), 1.0, lambda f, x: x, lambda g, y: y), "f must return"),
])
def test_errors_name_the_function(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_transpose_solve_is_used_for_symmetric_systems():
    def loss(b):
        return custom_linear_solve(lambda x: 2 * x, b, lambda f, y: y / 2, lambda f, y: y / 4, symmetric=True).sum()
    np.testing.assert_allclose(grad(loss)(B), np.full_like(B, 0.25))  # from transpose_solve


def newton(f, x):
    for _ in range(30):
        y, derivative = jvp(f, (x,), (1.0,))
        x = x - y / derivative
    return x


def cube_root(a):
    return custom_root(lambda x: x * x * x - a, 1.0, newton, lambda g, y: y / g(1.0))


def test_root_and_its_derivatives():
    np.testing.assert_allclose(cube_root(8.0), 2.0)
    np.testing.assert_allclose(grad(cube_root)(8.0), 1 / 12)
    np.testing.assert_allclose(grad(grad(cube_root))(8.0), -2 / 9 * 8 ** (-5 / 3))
    np.testing.assert_allclose(jit(grad(cube_root))(8.0), 1 / 12)


def test_root_with_auxiliary_results():
    x, aux = custom_root(lambda x: x * x - 2.0, 1.0, lambda f, x: (newton(f, x), {"guess": x}), lambda g, y: y / g(1.0),
                         has_aux=True)
    np.testing.assert_allclose(x, 2 ** 0.5)
    assert aux["guess"] == 1.0


def test_programs_with_solves_can_be_saved():
    closed = make_jaxpr(solve_lower)(A, B)
    assert str(loads(dumps(closed))) == str(closed)


def test_functions_are_staged_once_per_types():
    seen = []

    def f(x):
        seen.append(x)
        return x * x - 2.0

    def solve(f, x):
        seen.append(x)
        return newton(f, x)

    def system(x):
        seen.append(x)
        return lax.mul(x, 2.0)

    def half(f, b):
        seen.append(b)
        return lax.div(b, 2.0)

    def run(guess):
        root = custom_root(f, guess, solve, lambda g, y: y / g(1.0))
        return root, custom_linear_solve(system, B, half, half)

    first = run(1.0)
    count = len(seen)
    for guess in (1.5, 3.0):
        root, x = run(guess)
        np.testing.assert_allclose(root, 2 ** 0.5, rtol=1e-6)
        np.testing.assert_array_equal(x, first[1])
    assert len(seen) == count
    custom_root(f, 1.0, lambda f, x: newton(f, x), lambda g, y: y / g(1.0))
    assert len(seen) > count
