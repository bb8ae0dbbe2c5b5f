"""Calls leave no reference cycles: traces, programs and arrays are freed by reference counting."""
import gc

import pytest

import lamina
import lamina.numpy as jnp
from lamina import lax

_x = jnp.arange(4.)


def _f(x):
    return jnp.sum(jnp.sin(x) * x)


def _loop(x):
    return jnp.sum(lax.scan(lambda c, row: (c * jnp.sin(row), c + row), x[0], x)[1])


@pytest.mark.parametrize("call", [
    lambda: lamina.tree_util.tree_map_with_path(lambda path, x: x, {"a": [_x]}),
    lambda: lamina.make_jaxpr(lambda x: _f(x))(_x),
    lambda: lamina.eval_shape(lambda x: _f(x), _x),
    lambda: lamina.jvp(lambda x: _f(x), (_x,), (_x,)),
    lambda: lamina.vmap(lambda x: jnp.sin(x))(_x),
    lambda: lamina.vjp(lambda x: _f(x), _x)[1](jnp.float32(1)),
    lambda: lamina.linearize(lambda x: _f(x), _x)[1](_x),
    lambda: lamina.linear_transpose(lambda x: 2 * x, _x)(_x),
    lambda: lamina.grad(lambda x: _f(x))(_x),
    lambda: lamina.jacrev(lambda x: jnp.sin(x))(_x),
    lambda: lamina.hessian(lambda x: _f(x))(_x),
    lambda: lamina.make_jaxpr(lamina.grad(lambda x: _loop(x)))(_x),
    lambda: lamina.make_jaxpr(lamina.grad(lambda x: lax.cond(x[0] > 0, _f, lambda x: x[1], x)))(_x),
    lambda: lamina.make_jaxpr(lamina.vmap(lamina.grad(lambda x: lamina.jit(lambda x: jnp.sin(x) * x)(x))))(_x),
], ids=["paths", "make_jaxpr", "eval_shape", "jvp", "vmap", "vjp", "linearize", "linear_transpose", "grad", "jacrev", "hessian",
        "grad of scan", "grad of cond", "vmap of grad of jit"])
def test_call_leaves_no_reference_cycles(call):
    for _ in range(2):  # fills the caches
        call()
    enabled = gc.isenabled()
    while gc.collect():  # garbage of other tests may need several collections
        pass
    gc.disable()
    try:
        call()
        assert gc.collect() == 0
    finally:
        if enabled:
            gc.enable()


_rows = jnp.arange(32.).reshape(8, 4)


def _sums(x):
    return lax.psum(jnp.sin(x), "i")


def _total(x):
    return lax.psum(jnp.sum(x * x), "i")


@pytest.mark.parametrize("make", [
    lambda: lamina.jit(lambda x: jnp.sin(x)),
    lambda: lamina.pmap(lambda x: jnp.sin(x)),
    lambda: lamina.pmap(lambda x: _sums(x), axis_name="i"),
    lambda: lamina.pmap(lambda x: _sums(x), axis_name="i", donate_argnums=0),
    lambda: lamina.pmap(lamina.grad(lambda x: _total(x)), axis_name="i"),
    lambda: lamina.jit(lamina.pmap(lambda x: _sums(x), axis_name="i")),
    lambda: lamina.jit(lambda x: 2 * lamina.pmap(lambda x: _sums(x), axis_name="i")(x)),
    lambda: lamina.jit(lambda x: jnp.sum(x, 1), in_shardings=(lamina.pmap(lambda x: x)(_rows).sharding,)),
    lambda: lamina.pmap(lambda x: _sums(x), axis_name="i").lower(_rows).compile(),
    lambda: lambda x: lamina.parallel.padded(lambda row: 2 * row)(jnp.concatenate([x, x])),
], ids=["jit", "pmap", "psum", "donated", "grad", "map", "map inside", "in_shardings", "compiled", "padded"])
def test_freed_function_leaves_no_reference_cycles(make):
    """Programs, and what they hold, are freed with the function."""
    def used():
        f = make()
        for _ in range(3):  # later calls use the fast path
            f(_rows + 0)

    used()
    while gc.collect():
        pass
    gc.disable()
    try:
        used()
        assert gc.collect() == 0
    finally:
        gc.enable()
