"""Derivatives of derivatives: each level has separate tangents, in any combination of modes."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from lamina_autodiff import checkpoint, custom_jvp, custom_vjp, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp
from lamina_tracing import jit, lax

pytestmark = pytest.mark.order

ONE = np.float32(1)


def forward(f):
    return lambda x: jvp(f, (x,), (ONE,))[1]


def lined(f):
    return lambda x: linearize(f, x)[1](ONE)


def pulled(f):
    return lambda x: vjp(f, x)[1](ONE)[0]


WAYS = {"jvp": forward, "linearize": lined, "vjp": pulled, "grad": grad, "jacfwd": jacfwd, "jacrev": jacrev}


def f(x):
    return lax.mul(lax.sin(x), lax.mul(x, x))


def second(x):
    return 2 * np.sin(x) + 4 * x * np.cos(x) - x * x * np.sin(x)


@pytest.mark.parametrize("ways", list(itertools.product(WAYS, WAYS)), ids="-".join)
def test_second_derivatives_in_all_mode_combinations(ways):
    outer, inner = (WAYS[w] for w in ways)
    x = np.float32(0.8)
    np.testing.assert_allclose(float(outer(inner(f))(x)), second(0.8), rtol=1e-4)
    np.testing.assert_allclose(float(jit(outer(jit(inner(f))))(x)), second(0.8), rtol=1e-4)


@pytest.mark.parametrize("ways", [
    ("grad",) * 4, ("jvp",) * 4, ("jvp", "grad", "jvp", "grad"), ("grad", "linearize", "vjp", "jvp")], ids="-".join)
def test_fourth_derivative(ways):
    g = lax.exp
    for way in ways:
        g = WAYS[way](g)
    np.testing.assert_allclose(float(g(np.float32(0.5))), np.exp(0.5), rtol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_nested_perturbations_are_distinguished(way):
    """d/dx (x * d/dy (x + y)) is 1: the inner tangent must not be confused with the outer one."""
    d = WAYS[way]
    assert float(d(lambda x: lax.mul(x, d(lambda y: lax.add(x, y))(ONE)))(np.float32(2))) == 1
    assert float(d(lambda x: lax.mul(x, d(lambda y: lax.mul(x, y))(ONE)))(np.float32(3))) == 6


def test_derivative_with_respect_to_closed_over_value():
    def outer(w):
        return grad(lambda x: lax.mul(w, lax.mul(x, x)))(np.float32(3))

    assert float(grad(outer)(np.float32(2))) == 6


def test_gradient_descent_can_be_differentiated():
    def trained(rate):
        w = np.float32(1)
        for _ in range(3):
            w = lax.sub(w, lax.mul(rate, grad(lambda w: lax.mul(w, w))(w)))
        return w

    r = 0.1
    np.testing.assert_allclose(float(grad(trained)(np.float32(r))), -6 * (1 - 2 * r) ** 2, rtol=1e-5)


def test_mixed_partial_derivatives_commute():
    g = lambda x, y: lax.mul(lax.sin(x), lax.exp(lax.mul(x, y)))
    x, y = np.float32(0.3), np.float32(0.6)
    a = grad(lambda x: grad(g, 1)(x, y))(x)
    b = grad(lambda y: grad(g, 0)(x, y))(y)
    np.testing.assert_allclose(float(a), float(b), rtol=1e-5)


def test_hessians_of_trees_and_hessian_vector_products():
    a = np.float32([[2, 1], [0, 3]])
    g = lambda x: lax.dot(x, lax.sin(lax.dot(a, x)))
    x, v = np.float32([0.2, -0.4]), np.float32([1, 2])
    h = np.asarray(hessian(g)(x))
    np.testing.assert_allclose(h, h.T, atol=1e-5)
    np.testing.assert_allclose(np.asarray(jvp(grad(g), (x,), (v,))[1]), h @ v, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(grad(lambda x: lax.dot(grad(g)(x), v))(x)), h @ v, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("around", [
    jit, checkpoint, lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    lambda f: lambda x: lax.cond(True, f, lambda y: y, x)], ids=["jit", "checkpoint", "scan", "cond"])
def test_second_derivatives_through_primitives_with_regions(around):
    x = np.float32(0.8)
    for outer, inner in ((grad, grad), (forward, grad), (grad, forward), (forward, forward)):
        np.testing.assert_allclose(float(outer(inner(around(f)))(x)), second(0.8), rtol=1e-4)


def test_custom_rules_are_differentiated():
    by_jvp = custom_jvp(lax.sin)
    by_jvp.defjvp(lambda p, t: (by_jvp(p[0]), lax.mul(t[0], lax.mul(p[0], p[0]))))
    by_vjp = custom_vjp(lax.sin)
    by_vjp.defvjp(lambda x: (by_vjp(x), x), lambda x, ct: (lax.mul(ct, lax.mul(x, x)),))
    for g in (by_jvp, by_vjp):
        x = np.float32(3)
        assert float(grad(g)(x)) == 9 and float(grad(grad(g))(x)) == 6 and float(grad(grad(grad(g)))(x)) == 2
