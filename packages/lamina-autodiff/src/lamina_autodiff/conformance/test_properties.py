"""Properties of any derivative: dot-product test, linearity, chain rule; and linear functions."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import grad, jvp, linear_call, linear_transpose, linearize, vjp
from lamina_ir import trees
from lamina_tracing import jit, lax

from lamina_autodiff.conformance.differences import differences, host, inner, noise

X, Y = np.float32([0.5, -1.0, 2.0]), np.float32([[1, 2, 3], [4, 5, 6]])


def mixed(p, k):
    y = lax.sin(lax.mul(p["a"], k))
    return [lax.dot(p["m"], y), {"s": lax.reduce_max(y, (0,)), "c": lax.cumsum(lax.exp(p["a"]), axis=0)}]


def looped(p, k):
    out, each = lax.scan(lambda c, x: (lax.tanh(lax.add(c, lax.mul(x, k))), lax.mul(c, c)), p["a"], p["m"])
    return out, lax.fori_loop(0, 3, lambda i, v: lax.mul(v, k), each)


def branched(p, k):
    return lax.cond(lax.gt(k, 0.0), lambda: lax.mul(p["a"], k), lambda: lax.sin(p["a"])), lax.cond(
        lax.lt(k, 0.0), lambda m: lax.neg(m), lambda m: lax.mul(m, m), p["m"])


def gathered(p, k):
    picked = lax.dynamic_slice(p["m"], (0, 1), (2, 2))
    put = lax.dynamic_update_slice(p["m"], lax.mul(picked, k), (0, 0))
    return lax.sort(p["a"]), put, lax.concatenate([p["a"], lax.rev(p["a"], (0,))], 0)


POINT = ({"a": X, "m": Y}, np.float32(0.7))
FUNCTIONS = [mixed, looped, branched, gathered, jit(mixed), jit(looped)]
IDS = ["mixed", "looped", "branched", "gathered", "jit of mixed", "jit of looped"]


def draw(like, seed):
    rng = np.random.default_rng(seed)
    return trees.tree_map(lambda x: noise(rng, x), like)


@pytest.mark.parametrize("f", FUNCTIONS, ids=IDS)
def test_tangents_equal_finite_differences(f):
    direction = draw(POINT, 0)
    leaves, tree = trees.tree_flatten(POINT)

    def one(*xs):
        return trees.tree_leaves(f(*trees.tree_unflatten(tree, xs)))

    tangent = trees.tree_leaves(jvp(f, POINT, direction)[1])
    expected = differences(one, leaves, trees.tree_leaves(direction), 2.0 ** -8)
    for t, d in zip(tangent, expected, strict=True):
        np.testing.assert_allclose(host(t), d, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("f", FUNCTIONS, ids=IDS)
def test_vjp_is_transpose_of_jvp(f):
    direction = draw(POINT, 1)
    value, pull = vjp(f, *POINT)
    ct = draw(value, 2)
    back = pull(ct)
    assert trees.tree_structure(back) == trees.tree_structure(POINT)
    np.testing.assert_allclose(inner(ct, jvp(f, POINT, direction)[1]), inner(back, direction), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("f", FUNCTIONS, ids=IDS)
def test_linearize_equals_jvp(f):
    value, push = linearize(f, *POINT)
    for seed in (3, 4):
        direction = draw(POINT, seed)
        v, t = jvp(f, POINT, direction)
        for a, b in zip(trees.tree_leaves((value, push(*direction))), trees.tree_leaves((v, t)), strict=True):
            np.testing.assert_allclose(host(a), host(b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("f", FUNCTIONS[:4], ids=IDS[:4])
def test_tangents_and_cotangents_are_linear(f):
    a, b = draw(POINT, 5), draw(POINT, 6)
    both = trees.tree_map(lambda x, y: 2 * x - 3 * y, a, b)
    push = linearize(f, *POINT)[1]
    for s, x, y in zip(*map(trees.tree_leaves, (push(*both), push(*a), push(*b))), strict=True):
        np.testing.assert_allclose(host(s), 2 * host(x) - 3 * host(y), rtol=1e-4, atol=1e-4)
    value, pull = vjp(f, *POINT)
    a, b = draw(value, 7), draw(value, 8)
    both = trees.tree_map(lambda x, y: np.float32(2) * x - np.float32(3) * y, a, b)
    for s, x, y in zip(*map(trees.tree_leaves, (pull(both), pull(a), pull(b))), strict=True):
        np.testing.assert_allclose(host(s), 2 * host(x) - 3 * host(y), rtol=1e-4, atol=1e-4)


def test_chain_rule():
    f, g = lambda x: lax.sin(lax.mul(x, x)), lambda y: lax.exp(lax.neg(y))
    y, dy = jvp(f, (X,), (X,))
    _, dz = jvp(g, (y,), (dy,))
    np.testing.assert_allclose(host(jvp(lambda x: g(f(x)), (X,), (X,))[1]), host(dz), rtol=1e-5)
    z, pull_g = vjp(g, y)
    _, pull_f = vjp(f, X)
    _, pull = vjp(lambda x: g(f(x)), X)
    ct = np.ones(3, np.float32)
    np.testing.assert_allclose(host(pull(ct)[0]), host(pull_f(pull_g(ct)[0])[0]), rtol=1e-5)


def test_linear_function_is_its_own_derivative():
    f = lambda x: lax.dot(Y, lax.mul(x, 2.0))
    np.testing.assert_allclose(host(jvp(f, (X,), (X,))[1]), host(f(X)), rtol=1e-6)
    back, = linear_transpose(f, X)(np.float32([1, 10]))
    np.testing.assert_allclose(host(back), 2 * Y.T @ np.float32([1, 10]), rtol=1e-6)


SQUARE = np.float32([[1, 2, 3], [0, 1, 4], [5, 0, 1]])
MATRICES = {"product": (lambda x: lax.dot(SQUARE, x), SQUARE), "running sum": (lambda x: lax.cumsum(x, axis=0), np.tri(3)),
            "shift": (lambda x: lax.concatenate([np.zeros(1, np.float32), lax.slice(x, (0,), (2,))], 0), np.eye(3, k=-1))}


@pytest.mark.parametrize("name", MATRICES)
def test_jvp_applies_matrix_and_vjp_its_transpose(name):
    f, m = MATRICES[name]
    for v in (X, np.float32([1, 10, 100])):
        np.testing.assert_allclose(host(jvp(f, (X,), (v,))[1]), m @ v, rtol=1e-6)
        np.testing.assert_allclose(host(linearize(f, X)[1](v)), m @ v, rtol=1e-6)
        np.testing.assert_allclose(host(vjp(f, X)[1](v)[0]), m.T @ v, rtol=1e-6)
        np.testing.assert_allclose(host(linear_transpose(f, X)(v)[0]), m.T @ v, rtol=1e-6)
        np.testing.assert_allclose(host(grad(lambda x, v=v: lax.dot(v, f(x)))(X)), m.T @ v, rtol=1e-6)


def test_transpose_of_transpose_is_the_function():
    f = lambda x: lax.cumsum(lax.rev(lax.mul(x, 3.0), (0,)), axis=0)
    t = lambda y: linear_transpose(f, X)(y)[0]
    again, = linear_transpose(t, X)(X)
    np.testing.assert_allclose(host(again), host(f(X)), rtol=1e-5)


def test_nonlinear_function_has_no_transpose():
    for f in (lax.sin, lambda x: lax.add(x, 1.0), lambda x: lax.mul(x, x)):
        with pytest.raises(TypeError, match="linear"):
            linear_transpose(f, X)(X)


def test_linear_call_uses_given_transpose():
    def scaled(x):
        return linear_call(lambda r, x: lax.mul(x, r), lambda r, ct: lax.mul(ct, lax.mul(r, 10.0)), np.float32(2), x)

    np.testing.assert_allclose(host(scaled(X)), 2 * X)
    np.testing.assert_allclose(host(linear_transpose(scaled, X)(X)[0]), 20 * X)
    np.testing.assert_allclose(host(jvp(scaled, (X,), (X,))[1]), 2 * X)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_derivative_of_loop_is_product_over_iterations(n):
    grow = lambda x: lax.fori_loop(0, n, lambda i, v: lax.sin(v), x)
    x, derivative = np.float64(0.7), 1.0
    for _ in range(n):
        x, derivative = np.sin(x), derivative * np.cos(x)
    np.testing.assert_allclose(float(jvp(grow, (np.float32(0.7),), (np.float32(1),))[1]), derivative, rtol=1e-5)
    np.testing.assert_allclose(float(grad(grow)(np.float32(0.7))), derivative, rtol=1e-5)


def test_while_loop_has_jvp_and_bounded_while_loop_has_vjp():
    def grow(x, bound=None):
        return lax.while_loop(lambda s: lax.lt(s, 100.0), lambda s: lax.mul(s, s), x, max_iters=bound)

    np.testing.assert_allclose(float(jvp(grow, (np.float32(3),), (np.float32(1),))[1]), 8 * 3.0 ** 7, rtol=1e-5)
    np.testing.assert_allclose(float(grad(lambda x: grow(x, 6))(np.float32(3))), 8 * 3.0 ** 7, rtol=1e-5)
