"""Loops that XLA compiles to one kernel."""
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_runtime._compile.small_loops import loop_byte_threshold
from lamina_tracing import jit, lax, make_jaxpr

XS = np.linspace(-1, 1, 3000, dtype=np.float32)


def run(c, xs):
    def step(c, x):
        c = lax.add(lax.mul(lax.sin(c), np.float32(0.5)), x)
        return c, c
    return lax.scan(step, c, xs)[1]


def test_loop_of_a_small_body_is_one_kernel_however_long():
    program = make_jaxpr(run)(np.float32(1), XS)
    assert loop_byte_threshold(program) > 2 * XS.nbytes
    assert loop_byte_threshold(make_jaxpr(lax.sin)(1.0)) == 0


@pytest.mark.parametrize("body", [
    lambda c, x: (lax.sin(c), lax.reduce_sum(c, (0, 1))),  # many elements
    lambda c, x: (lax.dot(c, c), x),
])
def test_loop_of_a_large_body_is_not(body):
    program = make_jaxpr(lambda c, xs: lax.scan(body, c, xs))(np.ones((256, 256), np.float32), XS)
    assert loop_byte_threshold(program) == 0


def test_long_body_is_never_one_kernel():
    def body(c, x):
        for _ in range(500):
            c = lax.sin(c)
        return c, x
    assert loop_byte_threshold(make_jaxpr(lambda xs: lax.scan(body, np.float32(1), xs))(XS)) == 1024


def test_calls_of_calls_are_examined_once():
    f = jit(lax.sin)
    for _ in range(60):
        f = (lambda g: jit(lambda x: g(g(x))))(f)
    assert loop_byte_threshold(make_jaxpr(f)(1.0)) == 0
    with pytest.raises(ValueError, match="equations"):
        f(1.0)


def test_large_and_small_loops_in_one_program():
    def both(c, xs, many):
        return run(c, xs), lax.scan(lambda c, _: (lax.sin(c), None), many, None, length=3)[0]
    large = loop_byte_threshold(make_jaxpr(both)(np.float32(1), XS, np.ones(1 << 20, np.float32)))
    assert 2 * XS.nbytes < large < 1 << 22
    assert loop_byte_threshold(make_jaxpr(both)(np.float32(1), np.ones(1 << 20, np.float32), np.ones(1 << 14, np.float32))) == 0


def test_results_and_derivatives():
    def reference(c):
        out = []
        for x in XS:
            c = np.float32(np.sin(c) * np.float32(0.5) + x)
            out.append(c)
        return np.array(out)

    np.testing.assert_allclose(jit(run)(np.float32(1), XS), reference(np.float32(1)), rtol=1e-5, atol=1e-6)
    derivative = jit(grad(lambda c: lax.reduce_sum(run(c, XS), (0,))))(np.float32(1))
    eps = 1e-3
    between = (run_64(1 + eps) - run_64(1 - eps)) / (2 * eps)
    np.testing.assert_allclose(derivative, between, rtol=1e-4)


def run_64(c):
    total = 0.0
    for x in XS.astype(np.float64):
        c = np.sin(c) * 0.5 + x
        total += c
    return total
