"""Every nesting of two transformations with a third gives the same numbers."""
import itertools

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def f(x):
    """A function from vector to vector, with reductions, indexing and a product."""
    y = jnp.tanh(x) * x[0] + jnp.where(x > 0, x, 0.5 * x)
    return y / (1 + jnp.sum(y * y)) + x.at[1].set(0.25)


def derivative(g):
    """Return the directional derivative along ones, by forward mode."""
    return lambda x: jax.jvp(g, (x,), (jnp.ones_like(x),))[1]


def pulled(g):
    """Return row sums of the Jacobian, by reverse mode."""
    def run(x):
        out, pull = jax.vjp(g, x)
        return pull(jnp.ones_like(out))[0]
    return run


def expected_rows(g):
    return np.stack([np.asarray(g(row)) for row in X])


PLAIN = {"id": lambda g: g, "jit": jax.jit, "remade jit": lambda g: jax.jit(lambda x: g(x)),
         "named": lambda g: jax.named_call(g, name="inner")}
MAPS = {"vmap": jax.vmap, "pmap": jax.pmap, "jit(vmap)": lambda g: jax.jit(jax.vmap(g)),
        "jit(pmap)": lambda g: jax.jit(jax.pmap(g)), "pmap(jit)": lambda g: jax.pmap(jax.jit(g)),
        "vmap(jit)": lambda g: jax.vmap(jax.jit(g))}
DIFFS = {"jvp": derivative, "vjp": pulled, "jvp(jvp)": lambda g: derivative(derivative(g)),
         "vjp(jvp)": lambda g: pulled(derivative(g)), "jvp(vjp)": lambda g: derivative(pulled(g))}


@pytest.mark.parametrize("mapped, diff", list(itertools.product(MAPS, DIFFS)))
def test_derivative_inside_a_map(mapped, diff):
    d = DIFFS[diff](f)
    np.testing.assert_allclose(np.asarray(MAPS[mapped](d)(X)), expected_rows(d), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("mapped", MAPS)
def test_derivative_of_a_map(mapped):
    whole = MAPS[mapped](f)
    rows = expected_rows(derivative(f))
    np.testing.assert_allclose(np.asarray(derivative(whole)(X)), rows, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(np.asarray(pulled(whole)(X)), expected_rows(pulled(f)), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("outer, inner", list(itertools.product(PLAIN, PLAIN)))
@pytest.mark.parametrize("diff", ["jvp", "vjp", "vjp(jvp)"])
def test_calls_inside_derivatives(outer, inner, diff):
    got = PLAIN[outer](DIFFS[diff](PLAIN[inner](f)))(X[0])
    np.testing.assert_allclose(np.asarray(got), np.asarray(DIFFS[diff](f)(X[0])), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("mapped", MAPS)
def test_make_jaxpr_checks_and_runs(mapped):
    from lamina_ir import check, evaluate
    closed = jax.make_jaxpr(pulled(MAPS[mapped](f)))(X)
    check(closed)
    np.testing.assert_allclose(evaluate(closed, X)[0], expected_rows(pulled(f)), rtol=2e-4, atol=2e-5)


def test_jacobians_and_hessian_agree():
    g = lambda x: jnp.sum(f(x) ** 2)
    np.testing.assert_allclose(np.asarray(jax.jacfwd(f)(X[0])), np.asarray(jax.jacrev(f)(X[0])), rtol=1e-4, atol=1e-5)
    h = jax.hessian(g)(X[0])
    np.testing.assert_allclose(np.asarray(h), np.asarray(jax.jit(jax.jacrev(jax.grad(g)))(X[0])), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.asarray(h), np.asarray(h).T, rtol=1e-3, atol=1e-4)


def test_linearize_runs_the_function_once():
    count = []

    def g(x):
        count.append(1)
        return f(x)

    y, f_jvp = jax.linearize(jax.jit(g), X[0])
    for _ in range(3):
        t = f_jvp(np.ones(3, np.float32))
    assert len(count) == 1
    np.testing.assert_allclose(np.asarray(t), np.asarray(derivative(f)(X[0])), rtol=1e-4, atol=1e-5)
    jitted = jax.jit(f_jvp)(np.ones(3, np.float32))
    np.testing.assert_allclose(np.asarray(jitted), np.asarray(t), rtol=1e-4, atol=1e-5)
