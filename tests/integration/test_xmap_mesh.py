"""`xmap` over the devices of a mesh: shardings, communication, and results as without resources."""
import re

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental.maps import Mesh, SerialLoop, xmap
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
def test_results_match_those_without_resources(resources):
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


def test_shards_are_on_the_devices_of_the_mesh():
    mesh = Mesh(DEVICES[::-1, ::-1], ("x", "y"))
    f = over(b=("y", "x"))
    with mesh:
        out = f(X, W)
        assert out.sharding == NamedSharding(mesh, P(("y", "x"))) and out.sharding.spec == P(("y", "x"))
        again = f(out, W)
    for k, shard in enumerate(sorted(out.addressable_shards, key=lambda s: s.index[0].start)):
        assert shard.device == mesh.devices[k % 4, k // 4] and np.array_equal(shard.data, plain(X, W)[k:k + 1])
    assert again.sharding == out.sharding


def test_unused_mesh_axis_holds_copies():
    with Mesh(DEVICES, ("x", "y")):
        out = over(b="x")(X, W)
    assert len(out.addressable_shards) == 8
    for s in out.addressable_shards:
        assert np.array_equal(s.data, plain(X, W)[s.index])


def test_callbacks_run_once_per_copy():
    """As documented: each member calls once per copy along unused mesh axes."""
    for resources, copies in (({"b": "x"}, 2), ({"b": ("x", "y")}, 1), ({"b": "y"}, 4)):
        seen = []
        f = xmap(lambda v: (jax.debug.callback(seen.append, v[0]), lax.psum(v, "b"))[1], {0: "b"}, {}, axis_resources=resources)
        with Mesh(DEVICES, ("x", "y")):
            assert np.array_equal(f(X), X.sum(0))
        jax.effects_barrier()
        assert sorted(map(float, seen)) == sorted([*X[:, 0]] * copies)


def test_compiled_program_has_only_the_collectives_of_the_source():
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


def mlp(x, w1, w2, y):  # one example, input and hidden unit
    h = jnp.maximum(lax.psum(x * w1, "i"), 0)
    return lax.pmean((lax.psum(h * w2, "h") - y) ** 2, "b")


def attention(q, k, v):  # one head, query and key
    e = jnp.exp(jnp.vdot(q, k) - lax.pmax(jnp.vdot(q, k), "k"))
    return lax.psum(e * v, "k") / lax.psum(e, "k")


def _flat_mlp(x, w1, w2, y):
    return ((jnp.maximum(x @ w1, 0) @ w2 - y) ** 2).mean()


def _flat_attention(q, k, v):
    return jax.nn.softmax(q @ k.swapaxes(1, 2)) @ v


SMALL = [np.random.default_rng(n).standard_normal((2, 8, 8)).astype(np.float32) for n in range(3)]
LAYERS = [SMALL[0][0, :, :4], SMALL[1][0, :4, :6], SMALL[1][1, 0, :6], SMALL[2][0, 0]]


@pytest.mark.parametrize("resources, forward, backward", [
    ({"b": ("x", "y")}, 1, 2), ({"h": "y"}, 1, 1),  # the squared sum, and the gradients summed over examples
    ({"b": "x", "h": "y"}, 2, 3), ({"b": "x", "i": "y"}, 2, 3),
    ({"h": "y", "q": "x"}, 0, 1),     # queries share keys and values: their gradients are sums
    ({"h": "y", "k": "x"}, 2, 4)])    # the maximum, then both sums at once; as many backward
def test_network_needs_only_the_collectives_of_its_sums(resources, forward, backward):
    if {"q", "k"} & {*resources}:
        f = xmap(attention, (["h", "q", ...], ["h", "k", ...], ["h", "k", ...]), ["h", "q", ...], axis_resources=resources)
        plain, args, by = _flat_attention, SMALL, (0, 1, 2)
    else:
        f = xmap(mlp, (["b", "i"], ["i", "h"], ["h"], ["b"]), {}, axis_resources=resources)
        plain, args, by = _flat_mlp, LAYERS, (1, 2)
    with Mesh(DEVICES, ("x", "y")):
        for g, h, number in ((f, plain, forward), (jax.grad(lambda *a: (f(*a) ** 2).sum(), by),
                                                   jax.grad(lambda *a: (plain(*a) ** 2).sum(), by), backward)):
            compiled = jax.jit(g).lower(*args).compile()
            assert collectives(compiled) == ["all-reduce"] * number
            for a, b in zip(jax.tree.leaves(compiled(*args)), jax.tree.leaves(h(*args)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_call_after_leaving_the_mesh():
    f = over(b="x")
    with Mesh(DEVICES, ("x", "y")):
        f(X, W)
        f(X, W)
    with pytest.raises(ValueError, match="no mesh is in scope"):
        f(X, W)
    with Mesh(DEVICES.T, ("x", "y")):
        assert {s.index[0].stop for s in f(X, W).addressable_shards} == {4, 8}


def test_programs_have_their_axis_resources():
    from lamina_ir import jaxpr_text
    with Mesh(DEVICES, ("x", "y")):
        assert "axis_resources=(('b', ('x', 'y')),)" in jaxpr_text(jax.make_jaxpr(over(b=("x", "y")))(X, W))


def test_result_repeated_along_an_axis_with_the_same_resource_is_refused():
    f = xmap(lambda w: w, {0: "b"}, ["b", "c"], axis_sizes={"c": 4}, axis_resources={"b": "x", "c": "x"})
    with Mesh(DEVICES, ("x", "y")):
        for g in (f, jax.jit(f)):
            with pytest.raises(ValueError, match="the axes 'b' and 'c' share an axis of the mesh"):
                g(W)


# --- nested maps with resources ---------------------------------------------------------------------------------------
def _grid():
    return Mesh(np.array(jax.devices()[:8], object).reshape(2, 2, 2), ("x", "y", "z"))


def _member(v, w):
    return v * w - lax.psum(v * w, "c") * lax.axis_index("c") + lax.psum(v, "b")


def _nested(inner=("y",), outer=("x",), within=lambda f: f):
    inner_map = within(xmap(_member, ({0: "c"}, {}), {0: "c"}, axis_resources={"c": inner}))
    return xmap(inner_map, ({0: "b"}, {}), {0: "b"}, axis_resources={"b": outer})


def _flat(v, w):
    return v * w - (v * w).sum(1, keepdims=True) * jnp.arange(8) + v.sum(0)


MEMBERS = np.arange(32, dtype=np.float32).reshape(4, 8) / 8
NESTED = {
    "call": lambda h: h(MEMBERS, np.float32(3)), "jit": lambda h: jax.jit(h)(MEMBERS, np.float32(3)),
    "grad": lambda h: jax.grad(lambda *a: (h(*a) ** 2).sum(), (0, 1))(MEMBERS, np.float32(3)),
    "vmap": lambda h: jax.vmap(h, (None, 0))(MEMBERS, np.arange(2, dtype=np.float32)),
    "scan": lambda h: lax.scan(lambda c, _: (h(c, np.float32(0.5)), None), MEMBERS, None, length=2)[0],
    "second": lambda h: jax.grad(lambda w: jax.grad(lambda w: (h(MEMBERS, w) ** 2).sum())(w))(np.float32(3)),
}


@pytest.mark.parametrize("how", NESTED)
def test_nested_maps_with_resources(how):
    for h in (_nested(), _nested(("z", "y"), "x"), _nested("y", "x", lambda f: lambda *a: jax.jit(f)(*a)),
              _nested(("y", SerialLoop(2)), ("x", SerialLoop(2)))):
        with _grid():
            found = NESTED[how](h)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(NESTED[how](_flat)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


def test_three_nested_maps_with_resources():
    f = lambda v: v - lax.psum(v, ("a", "b", "c"))  # noqa: E731
    for name, resource in (("c", "z"), ("b", "y"), ("a", "x")):
        f = xmap(f, [name, ...], [name, ...], axis_resources={name: resource})
    x = np.arange(32, dtype=np.float32).reshape(4, 2, 4)
    with _grid():
        np.testing.assert_array_equal(f(x), x - x.sum())


def _of_two(f):
    return xmap(f, ({0: "b"}, {0: "c"}), ["b", "c", ...], axis_resources={"b": "x", "c": "x"})


STACKED, W3 = np.stack([MEMBERS, MEMBERS]), np.float32(3)


@pytest.mark.parametrize("make, args, message", [
    (lambda: _nested("x", "x"), (MEMBERS, W3),
     "the inner xmap of `_member` has axis_resources too at .*, which give the axis 'c' the mesh axis 'x'; here that is "
     "given to 'b'. Give each mesh axis to one of the two"),
    (lambda: jax.pmap(lambda v: _nested()(v, W3)), (STACKED,),
     "pmap of `<lambda>`: the inner xmap of `.*` has axis_resources at "),
    (lambda: jax.pmap(jax.jit(lambda v: _nested()(v, W3).sum())), (STACKED,), "the inner xmap of .* has axis_resources at "),
    (lambda: jax.shard_map(lambda v: _nested()(v, W3), _grid(), P("x"), P("x")), (STACKED.reshape(8, 8),),
     "shard_map of .* has axis_resources at "),
    (lambda: _of_two(lambda a, b: a * b), (MEMBERS, MEMBERS),
     r"'b' and 'c' are both given the mesh axis 'x', and meet in one value: "
     r"`mul` at .*test_xmap_mesh.* gives f32\[8\]{b,c}"),
    (lambda: xmap(lambda v: v, ["b", "c"], ["b", "c"], axis_resources={"b": "x", "c": "x"}), (MEMBERS,),
     r"'b' and 'c' are both given the mesh axis 'x', and meet in one value: an argument is f32\[\]{b,c}"),
    (lambda: xmap(lambda v: v, {0: "b"}, {0: "b"}, axis_resources={"b": ("x", "z", "y")}), (MEMBERS,),
     "the axis 'b' of size 4 cannot be divided evenly over 'x' of size 2 and 'z' of size 2 and 'y' of size 2"),
    (lambda: xmap(lambda v: v, {0: "b"}, {0: "b"}, axis_resources={"b": "w"}), (MEMBERS,),
     "the axis 'b' 'w', which is not an axis of the mesh in scope, Mesh"),
    (lambda: xmap(lambda v: jax.pmap(lambda u: u * 2)(v), {0: "b"}, {0: "b"}, axis_resources={"b": "x"}), (MEMBERS,),
     "xmap of .* the pmap of `<lambda>` inside at .*test_xmap_mesh"),
])
def test_invalid_resources_are_refused_at_trace_time(make, args, message):
    with _grid():
        h = make()
        for trace in (jax.make_jaxpr(h), jax.make_jaxpr(jax.jit(h)), jax.make_jaxpr(jax.grad(lambda *a: h(*a).sum()))):
            with pytest.raises(ValueError, match=message):
                trace(*args)
