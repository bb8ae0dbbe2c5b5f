"""Callables whose `__name__` is not a string, under every function that takes a function."""
import functools

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.custom_batching import sequential_vmap
from lamina_tracing.extend import jaxpr_as_fun

X = jnp.arange(3.0)


class Named:
    def __init__(self, name):
        self.__name__ = name

    def __call__(self, x):
        return x * 2.0


class AnyAttribute:
    """An object with every attribute, as proxies and mocks have them."""

    def __getattr__(self, name):
        if name in ("__name__", "__qualname__", "__doc__", "__module__"):
            return 7
        raise AttributeError(name)

    def __call__(self, x):
        return x * 2.0


CALLABLES = {"int": Named(5), "none": Named(None), "other attributes": AnyAttribute()}
TRANSFORMATIONS = {
    "vmap": lambda f: jax.vmap(f)(X),
    "grad": lambda f: jax.vmap(jax.grad(f))(X) * X,
    "value_and_grad": lambda f: jax.vmap(lambda x: jax.value_and_grad(f)(x)[0])(X),
    "jacfwd": lambda f: jnp.diag(jax.jacfwd(f)(X)) * X,
    "jacrev": lambda f: jnp.diag(jax.jacrev(f)(X)) * X,
    "jvp": lambda f: jax.jvp(f, (X,), (X,))[1],
    "linearize": lambda f: jax.linearize(f, X)[1](X),
    "checkpoint": lambda f: jax.checkpoint(f)(X),
    "jit": lambda f: jax.jit(f)(X),
    "partial": lambda f: jax.jit(functools.partial(f))(X),
    "pmap": lambda f: jax.pmap(f)(X[None])[0],
    "make_jaxpr": lambda f: jaxpr_as_fun(jax.make_jaxpr(f)(X))(X)[0],
    "eval_shape": lambda f: jax.eval_shape(f, X).shape[0] * 2.0 / 3.0 * X,
    "lower": lambda f: jax.jit(f).lower(X).compile()(X),
    "named_call": lambda f: jax.named_call(f)(X),
    "vectorize": lambda f: jnp.vectorize(f)(X),
    "scan": lambda f: lax.map(f, X),
    "cond": lambda f: lax.cond(True, f, f, X),
    "sequential_vmap": lambda f: jax.vmap(sequential_vmap(f))(X),
    "annotate_function": lambda f: jax.profiler.annotate_function(f)(X),
}


@pytest.mark.parametrize("name", CALLABLES)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_functions_accept_callables_whose_name_is_not_a_string(transformation, name):
    np.testing.assert_array_equal(TRANSFORMATIONS[transformation](CALLABLES[name]), 2 * X)


def test_custom_rules_accept_callables_whose_name_is_not_a_string():
    f = jax.custom_jvp(Named(5))
    f.defjvp(lambda p, t: (2 * p[0], 3 * t[0]))
    assert jax.grad(f)(1.0) == 3
    g = jax.custom_vjp(Named(5))
    g.defvjp(lambda x: (2 * x, None), lambda r, ct: (3 * ct,))
    assert jax.grad(jax.jit(g))(1.0) == 3
