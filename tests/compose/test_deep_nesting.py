"""Hundreds of programs nested in one another: under Python's usual limit, and in time that grows with the depth."""
import math
import sys
import time

import pytest

import lamina as jax
import lamina.numpy as jnp
from lamina import lax


def with_own_rule(g):
    f = jax.custom_jvp(lambda x: jnp.sin(g(x)))
    f.defjvp(lambda primals, tangents: jax.jvp(lambda x: jnp.sin(g(x)), primals, tangents))
    return f


NESTINGS = {
    "jit": lambda g: jax.jit(lambda x: jnp.sin(g(x))),
    "checkpoint": lambda g: jax.checkpoint(lambda x: jnp.sin(g(x))),
    "scan": lambda g: lambda x: lax.scan(lambda c, _: (jnp.sin(g(c)), None), x, None, length=2)[0],
    "cond": lambda g: lambda x: lax.cond(x > 0, lambda x: jnp.sin(g(x)), jnp.cos, x),
    "custom_jvp": with_own_rule,
}
USES = {"grad": lambda f: jax.make_jaxpr(jax.grad(f))(0.5),
        "vmap": lambda f: jax.make_jaxpr(jax.vmap(f))(jnp.ones(3)), "lower": lambda f: jax.jit(f).lower(0.5),
        "print": lambda f: str(jax.make_jaxpr(f)(0.5))}


def nested(kind, depth):
    f = jnp.sin
    for _ in range(depth):
        f = NESTINGS[kind](f)
    return f


@pytest.mark.slow
@pytest.mark.parametrize("kind", NESTINGS)
@pytest.mark.parametrize("use", ["grad", "vmap", "lower", "print"])
def test_500_levels(kind, use):
    limit = sys.getrecursionlimit()
    USES[use](nested(kind, 500))
    assert sys.getrecursionlimit() == limit


def test_500_levels_run():
    x = 0.5
    for _ in range(501):
        x = math.sin(x)
    assert float(jax.jit(nested("jit", 500))(0.5)) == pytest.approx(x, rel=1e-4)


def test_time_of_nested_checkpoints_grows_with_the_depth():
    def seconds(depth):
        f = nested("checkpoint", depth)
        start = time.thread_time()
        USES["grad"](f)
        return time.thread_time() - start

    seconds(50)
    assert seconds(200) < 16 * min(seconds(50) for _ in range(3))  # 64 times while each level made all inner ones anew


def test_a_function_that_calls_itself_without_an_end():
    f = jax.jit(lambda x: f(x) + 1)
    limit = sys.getrecursionlimit()
    for use in (f, jax.make_jaxpr(f), jax.grad(f)):
        with pytest.raises(RecursionError, match="more than 1600 levels deep: one that calls itself needs an end"):
            use(1.0)
    assert sys.getrecursionlimit() == limit
