"""`xmap` over the devices of a mesh: where shards lie, what is moved between devices, results as without resources."""
import re

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental.maps import Mesh, xmap
from lamina.sharding import NamedSharding, PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)
W = np.array([1, 2, 4, 8], np.float32)
DEVICES = np.array(jax.devices()[:8], object).reshape(4, 2)


def scaled(x, w):
    return x * w / 8 - lax.psum(x, "b")


def plain(x, w):
    return x * w / 8 - x.sum(0)


def over(**resources):
    return xmap(scaled, (["b", ...], {}), ["b", ...], axis_resources=resources)


def collectives(compiled):
    ops = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
    return sorted(re.findall(rf" ({ops})(?:-start)?\(", compiled.as_text()))


@pytest.mark.parametrize("resources", [dict(b="x"), dict(b=("x", "y")), dict(b=("y", "x")), dict(b="y"), {}])
def test_results_are_those_without_resources(resources):
    f = over(**resources)

    def total(h):
        return lambda *args: (h(*args) ** 2).sum()

    with Mesh(DEVICES, ("x", "y")):
        for how in (lambda h: h(X, W), lambda h: jax.jit(h)(X, W), lambda h: jax.grad(total(h), (0, 1))(X, W),
                    lambda h: jax.jit(jax.grad(total(h), (0, 1)))(X, W), lambda h: jax.jvp(h, (X, W), (X, W)),
                    lambda h: jax.vmap(h, (0, None))(np.stack([X, X + 1]), W),
                    lambda h: lax.scan(lambda c, w: (h(c, w) % 8, c.sum()), X, np.stack([W, W]))):
            for a, b in zip(jax.tree.leaves(how(f)), jax.tree.leaves(how(plain))):
                np.testing.assert_allclose(a, b, rtol=1e-6)


def test_shards_lie_on_the_devices_of_the_mesh_and_stay_there():
    mesh = Mesh(DEVICES[::-1, ::-1], ("x", "y"))
    f = over(b=("y", "x"))
    with mesh:
        out = f(X, W)
        assert out.sharding == NamedSharding(mesh, P(("y", "x"))) and out.sharding.spec == P(("y", "x"))
        again = f(out, W)
    for k, shard in enumerate(sorted(out.addressable_shards, key=lambda s: s.index[0].start)):
        assert shard.device == mesh.devices[k % 4, k // 4] and np.array_equal(shard.data, plain(X, W)[k:k + 1])
    assert again.sharding == out.sharding


def test_a_mesh_axis_that_nobody_mentions_holds_copies():
    with Mesh(DEVICES, ("x", "y")):
        out = over(b="x")(X, W)
    assert len(out.addressable_shards) == 8
    for s in out.addressable_shards:
        assert np.array_equal(s.data, plain(X, W)[s.index])


def test_the_compiler_moves_what_the_program_says_and_no_more():
    with Mesh(DEVICES, ("x", "y")):
        product = xmap(jnp.vdot, ({0: "l"}, {1: "r"}), ["l", "r"], axis_resources={"l": "x", "r": "y"})
        assert collectives(product.lower(X, X.T).compile()) == []
        assert collectives(over(b=("x", "y")).lower(X, W).compile()) == ["all-reduce"]

        def loss(x, y, w):
            return lax.pmean((lax.psum(x * w, "i") - y) ** 2, "b")

        f = xmap(loss, (["b", "i"], ["b"], ["i"]), {}, axis_resources={"b": "x", "i": "y"})
        assert collectives(f.lower(X, X[:, 0], W).compile()) == ["all-reduce"] * 2
        found = jax.grad(f, 2)(X, X[:, 0], W)
    np.testing.assert_allclose(found, jax.grad(lambda w: (((X @ w) - X[:, 0]) ** 2).mean())(W), rtol=1e-6)


def test_a_mesh_that_is_left():
    f = over(b="x")
    with Mesh(DEVICES, ("x", "y")):
        f(X, W)
        f(X, W)
    with pytest.raises(ValueError, match="no mesh is in scope"):
        f(X, W)
    with Mesh(DEVICES.T, ("x", "y")):
        assert {s.index[0].stop for s in f(X, W).addressable_shards} == {4, 8}


def test_programs_are_saved_with_their_resources():
    from lamina_ir import jaxpr_text
    with Mesh(DEVICES, ("x", "y")):
        assert "axis_resources=(('b', ('x', 'y')),)" in jaxpr_text(jax.make_jaxpr(over(b=("x", "y")))(X, W))


def test_a_result_repeated_along_an_axis_that_shares_the_others_place():
    f = xmap(lambda w: w, {0: "b"}, ["b", "c"], axis_sizes={"c": 4}, axis_resources={"b": "x", "c": "x"})
    with Mesh(DEVICES, ("x", "y")):
        for g in (f, jax.jit(f)):
            with pytest.raises(ValueError, match="the axes 'b' and 'c' share an axis of the mesh"):
                g(W)
