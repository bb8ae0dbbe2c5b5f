"""Operations that have other forms on CPUs agree with the common forms: values, gradients, maps, loops and shards."""
from __future__ import annotations

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.sharding import Mesh, NamedSharding
from lamina.sharding import PartitionSpec as P
from lamina_ir import prims
from lamina_lowering import lowering_rules, platform_rules
from lamina_lowering.rules import products, sorting, top_k

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 4200)).astype(np.float32)
FUNCTIONS = {
    "argsort": lambda x: jnp.argsort(x, 1),
    "argsort_descending": lambda x: jnp.argsort(x, 1, descending=True),
    "argsort_of_columns": lambda x: jnp.argsort(x, 0),
    "sort_of_pairs": lambda x: lax.sort((x, x * x), num_keys=1),
    "sort_by_two_keys": lambda x: lax.sort((jnp.round(x), -x), num_keys=2),
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "cumsum_reverse": lambda x: lax.cumsum(x, 1, reverse=True),
    "top_k": lambda x: lax.top_k(x, 7),
    "integer_top_k": lambda x: lax.top_k((x * 1000).astype(np.int32), 7)[0],
}


@pytest.fixture(params=FUNCTIONS)
def fun(request):
    return FUNCTIONS[request.param]


def common(fun, *args):
    """Compile with the rules for other platforms."""
    jitted = lamina.jit(lambda *args: fun(*args))
    saved = sorting._PASSES, top_k._LARGE
    sorting._PASSES, top_k._LARGE = 0, 1 << 60
    try:
        with platform_rules("cpu").override(prims.cumsum_p, lowering_rules[prims.cumsum_p]):
            return jitted(*args)
    finally:
        sorting._PASSES, top_k._LARGE = saved


def check(fun, *args):
    for got, wanted in zip(lamina.tree.leaves(lamina.jit(fun)(*args)), lamina.tree.leaves(common(fun, *args)), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, 1e-5, 1e-3)


def gradient(fun):
    def total(x):
        return sum(jnp.sum(y * jnp.cos(jnp.arange(y.size).reshape(y.shape))) for y in lamina.tree.leaves(fun(x))
                   if jnp.issubdtype(y.dtype, jnp.floating))
    return lamina.grad(total)


def test_values(fun):
    check(fun, X)


@pytest.mark.parametrize("name", ["sort_of_pairs", "sort_by_two_keys", "cumsum", "cumsum_reverse", "top_k"])
def test_gradients(name):
    check(gradient(FUNCTIONS[name]), X)


def test_vmap(fun):
    for axis in (0, 2):
        check(lamina.vmap(fun, axis), np.stack([X[:, :2100], X[:, 2100:]], axis))


def test_in_loops(fun):
    def loop(x):
        return lax.scan(lambda carry, i: (carry, fun(carry + i)), x, np.arange(2, dtype=np.float32))[1]
    check(loop, X)


@pytest.mark.parametrize("spec", [P(None, ("a", "b")), P("a", "b")])
def test_on_eight_devices(fun, spec):
    mesh = Mesh(np.array(lamina.devices()[:8]).reshape(4, 2), ("a", "b"))
    x = lamina.device_put(X, NamedSharding(mesh, spec))
    for got, wanted in zip(lamina.tree.leaves(lamina.jit(fun)(x)), lamina.tree.leaves(common(fun, X)), strict=True):
        np.testing.assert_allclose(got, wanted, 1e-5, 1e-3)


def test_in_maps_over_eight_devices(fun):
    x = np.stack([X[:2] + i for i in range(8)])
    made, wanted = lamina.pmap(fun)(x), common(lamina.vmap(fun), x)
    for got, wanted in zip(lamina.tree.leaves(made), lamina.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(got, wanted, 1e-5, 1e-3)


def test_bfloat16_matrix_times_vector():
    a, v = X[:512].astype(jnp.bfloat16), X[0].astype(jnp.bfloat16)
    assert a.size < products._LARGE
    a = jnp.tile(a, (8, 1))
    wanted = a.astype(np.float32) @ v.astype(np.float32)
    np.testing.assert_allclose((a @ v).astype(np.float32), wanted, 1e-2, 1e-1)
    x = RNG.normal(size=(2, 4200)).astype(jnp.bfloat16)
    mapped = lamina.jit(lamina.vmap(lambda v: a @ v))(x)
    np.testing.assert_allclose(mapped.astype(np.float32), x.astype(np.float32) @ a.astype(np.float32).T, 1e-2, 1e-1)
    made = lamina.jit(lamina.grad(lambda a, v: (a @ v).sum().astype(np.float32), (0, 1)))(a, v)
    np.testing.assert_allclose(made[0].astype(np.float32)[3], v.astype(np.float32), 1e-2)
    np.testing.assert_allclose(made[1].astype(np.float32), a.astype(np.float32).sum(0), 2e-2, 0.5)
