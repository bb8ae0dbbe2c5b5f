"""User-defined derivatives: they are used as the derivative, whether correct or not."""
from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from lamina_autodiff import (closure_convert, custom_gradient, custom_jvp, custom_linear_solve, custom_root, custom_vjp, grad,
                             jacfwd, jvp, linearize, value_and_grad, vjp)
from lamina_tracing import jit, lax

TWO, ONE = np.float32(2), np.float32(1)


def sevenfold():
    f = custom_jvp(lambda x: lax.mul(x, 2.0))
    f.defjvp(lambda p, t: (f(*p), lax.mul(t[0], 7.0)))
    return f


def tenfold():
    f = custom_vjp(lambda x, y: lax.mul(x, y["a"]))
    f.defvjp(lambda x, y: (f(x, y), (x, y["a"])), lambda r, ct: (lax.mul(ct, lax.mul(r[1], 10.0)), {"a": lax.mul(ct, r[0])}))
    return f


@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["eager", "jit"])
def test_custom_jvp_rule_is_the_derivative(around):
    f = around(sevenfold())
    assert float(f(TWO)) == 4
    for got in (jvp(f, (TWO,), (ONE,))[1], linearize(f, TWO)[1](ONE), vjp(f, TWO)[1](ONE)[0], grad(f)(TWO), jacfwd(f)(TWO)):
        assert float(got) == 7


@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["eager", "jit"])
def test_custom_vjp_rule_is_the_derivative(around):
    f = around(tenfold())
    y = {"a": np.float32(3)}
    assert float(f(TWO, y)) == 6
    value, (dx, dy) = value_and_grad(f, (0, 1))(TWO, y)
    assert (float(value), float(dx), float(dy["a"])) == (6, 30, 2)


def test_linear_custom_vjp_supports_forward_mode():
    f = tenfold()
    y = {"a": np.float32(3)}
    for g in (f, jit(f)):
        tangent = jvp(g, (TWO, y), (ONE, {"a": np.float32(0.5)}))[1]
        assert float(tangent) == 31


@pytest.mark.backward
def test_nonlinear_custom_vjp_works_in_reverse_mode():
    clip = custom_vjp(lambda x: x)
    clip.defvjp(lambda x: (x, None), lambda _, ct: (lax.clamp(-1.0, ct, 1.0),))
    for g in (clip, jit(clip)):
        assert float(grad(lambda x, g=g: lax.mul(g(x), 5.0))(TWO)) == 1
        assert float(grad(lambda x, g=g: lax.mul(g(lax.mul(x, 3.0)), 0.5))(TWO)) == 1.5
        with pytest.raises(TypeError, match="linear"):
            jvp(g, (TWO,), (ONE,))


def test_rule_is_not_run_without_differentiation():
    seen = []
    f = custom_jvp(lambda x: seen.append("fun") or x)
    f.defjvp(lambda p, t: seen.append("rule") or (p[0], t[0]))
    f(TWO)
    assert seen == ["fun"]


def test_nondiff_argnums():
    @partial(custom_jvp, nondiff_argnums=(0,))
    def apply(fun, x):
        return fun(x)

    apply.defjvp(lambda fun, p, t: (fun(p[0]), lax.mul(t[0], 10.0)))
    assert float(grad(lambda x: apply(lax.sin, x))(TWO)) == 10

    @partial(custom_vjp, nondiff_argnums=(1,))
    def power(x, n):
        return lax.integer_pow(x, n)

    power.defvjp(lambda x, n: (lax.integer_pow(x, n), x), lambda n, x, ct: (lax.mul(ct, float(n)),))
    assert float(grad(power)(TWO, 3)) == 3


def test_rules_with_several_and_unused_results():
    f = custom_vjp(lambda x: (lax.sin(x), lax.cos(x)))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (lax.add(lax.mul(ct[0], 100.0), ct[1]),))
    assert float(grad(lambda x: f(x)[0])(TWO)) == 100
    assert float(grad(lambda x: f(x)[1])(TWO)) == 1
    assert float(grad(lambda x: lax.add(*f(x)))(TWO)) == 101


def test_rules_inside_loops_and_branches():
    f = sevenfold()
    scanned = lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]
    branched = lambda x: lax.cond(True, f, lambda v: v, x)
    for make in (grad, lambda g: lambda x: jvp(g, (x,), (ONE,))[1]):
        assert float(make(scanned)(TWO)) == 49
        assert float(make(branched)(TWO)) == 7


def test_rules_may_close_over_differentiated_values():
    def outer(x, w):
        f = custom_jvp(lambda x: lax.mul(x, w))
        f.defjvp(lambda p, t: (lax.mul(p[0], w), lax.mul(lax.mul(t[0], w), 10.0)))
        return f(x)

    assert float(grad(outer)(TWO, np.float32(3))) == 30
    assert float(jit(grad(outer))(TWO, np.float32(3))) == 30


def test_custom_gradient():
    f = custom_gradient(lambda x: (lax.mul(x, x), lambda g: lax.mul(g, lax.mul(x, 5.0))))
    assert float(f(TWO)) == 4 and float(grad(f)(TWO)) == 10


def test_closure_convert():
    def area(pi):
        converted, values = closure_convert(lambda r: lax.mul(pi, lax.mul(r, r)), TWO)
        return converted(TWO, *values)

    assert float(area(np.float32(3))) == 12 and float(grad(area)(np.float32(3))) == 4


@pytest.mark.parametrize("symmetric", [False, True])
def test_linear_solve_is_differentiated_implicitly(symmetric):
    a = np.float32([[4, 1], [1, 3]]) if symmetric else np.float32([[4, 1], [0, 3]])

    def solved(m, b):
        def solve(matvec, b):  # Richardson iteration: its own derivative would be that of finitely many steps
            return lax.stop_gradient(lax.fori_loop(0, 60, lambda i, x: lax.add(x, lax.mul(0.2, lax.sub(b, matvec(x)))),
                                                   lax.mul(b, 0.0)))
        return custom_linear_solve(lambda x: lax.dot(m, x), b, solve, lambda vecmat, b: solve(vecmat, b), symmetric=symmetric)

    b, v = np.float32([1, 2]), np.float32([1, -1])
    inverse = np.linalg.inv(a.astype(np.float64))
    np.testing.assert_allclose(np.asarray(solved(a, b)), inverse @ b, rtol=1e-4)
    np.testing.assert_allclose(np.asarray(grad(lambda b: lax.dot(v, solved(a, b)))(b)), inverse.T @ v, rtol=1e-4)
    da = grad(lambda m: lax.dot(v, solved(m, b)))(a)
    want = -np.outer(inverse.T @ v, inverse @ b)
    np.testing.assert_allclose(np.asarray(da), want, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.asarray(jvp(lambda b: solved(a, b), (b,), (v,))[1]), inverse @ v, rtol=1e-4)


def test_root_is_differentiated_implicitly():
    def root(a):
        return custom_root(lambda x: lax.sub(lax.mul(x, x), a), ONE,
                           lambda f, x: lax.stop_gradient(lax.fori_loop(0, 30, lambda i, x: lax.sub(x, lax.div(f(x), lax.mul(
                               x, 2.0))), x)),
                           lambda g, y: lax.div(y, g(ONE)))

    np.testing.assert_allclose(float(root(np.float32(9))), 3, rtol=1e-5)
    np.testing.assert_allclose(float(grad(root)(np.float32(9))), 1 / 6, rtol=1e-4)
    np.testing.assert_allclose(float(jvp(root, (np.float32(9),), (ONE,))[1]), 1 / 6, rtol=1e-4)


@pytest.mark.parametrize("bad", [
    lambda: grad(custom_jvp(lambda x: x))(TWO),
    lambda: grad(custom_vjp(lambda x: x))(TWO)], ids=["custom_jvp", "custom_vjp"])
def test_function_without_rule_is_rejected(bad):
    with pytest.raises(AttributeError, match="defjvp|defvjp"):
        bad()


def test_rule_with_wrong_result_is_rejected():
    f = custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (p[0], np.zeros(3, np.float32)))
    with pytest.raises((TypeError, ValueError)):
        grad(f)(TWO)
    g = custom_vjp(lambda x: x)
    g.defvjp(lambda x: (x, None), lambda r, ct: (ct, ct))
    with pytest.raises((TypeError, ValueError)):
        grad(g)(TWO)
