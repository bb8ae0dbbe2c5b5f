"""`SerialLoop`: serial axes give the results of parallel ones, inside and outside all transformations."""
import os

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental.maps import Mesh, SerialLoop, serial_loop, xmap
from lamina.experimental.shard_map import shard_map
from lamina.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4) / 8 + 1
W = np.array([1, 2, 4, 8], np.float32) / 8
DEVICES = np.array(jax.devices()[:8], object)
WIDE = bool(os.environ.get("LAMINA_WIDE"))


def body(x, w):
    z = x * w
    e = jnp.exp(z - lax.pmax(z, "b"))
    return jnp.sin(e / lax.psum(e, "b")) * (1 + lax.axis_index("b"))


def plain(x, w):
    z = x * w
    e = jnp.exp(z - z.max(0))
    return jnp.sin(e / e.sum(0)) * (1 + jnp.arange(8))[:, None]


def looped(*resources):
    return xmap(body, (["b", ...], {}), ["b", ...], axis_resources={"b": resources})


def assert_close(found, wanted):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


def total(h):
    return lambda *args: (h(*args) ** 2).sum()


BLOCKS = np.stack([X, X + 1])
AROUND = {
    "call": lambda h: h(X, W),
    "jit": lambda h: jax.jit(h)(X, W),
    "grad": lambda h: jax.grad(total(h), (0, 1))(X, W),
    "jit of grad": lambda h: jax.jit(jax.grad(total(h), (0, 1)))(X, W),
    "jvp": lambda h: jax.jvp(h, (X, W), (X, W)),
    "hessian": lambda h: jax.hessian(lambda w: total(h)(X, w))(W),
    "vmap": lambda h: jax.vmap(h, (0, None))(BLOCKS, W),
    "vmap of grad": lambda h: jax.vmap(jax.grad(total(h), 1), (0, None))(BLOCKS, W),
    "scan": lambda h: lax.scan(lambda c, w: (h(c, w) + 1, c.sum()), X, np.stack([W, W])),
    "checkpoint": lambda h: jax.grad(total(jax.checkpoint(h)))(X, W),
    "pmap": lambda h: jax.pmap(h, in_axes=(0, None))(BLOCKS, W),
}


@pytest.mark.parametrize("how", AROUND)
def test_serial_axis_does_not_change_results(how):
    assert_close(AROUND[how](looped(SerialLoop(4))), AROUND[how](plain))


@pytest.mark.parametrize("resources", [("x", SerialLoop(2)), (SerialLoop(2), "x"), ("x", SerialLoop(4)), ("y", "l", "x"),
                                       ("l",), (SerialLoop(2), SerialLoop(4)), (SerialLoop(1),), (SerialLoop(8),)])
def test_serial_axes_with_a_mesh(resources):
    h = looped(*resources)
    with Mesh(DEVICES[:4].reshape(2, 2), ("x", "y")), serial_loop("l", 2):
        assert_close(h(X, W), plain(X, W))
        assert_close(jax.grad(total(h), (0, 1))(X, W), jax.grad(total(plain), (0, 1))(X, W))


def test_serial_axis_inside_shard_map():
    mesh = Mesh(DEVICES[:2], ("x",))
    h = shard_map(looped(SerialLoop(2)), mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))
    assert_close(h(np.concatenate([X, X + 1]), W), np.concatenate([plain(X, W), plain(X + 1, W)]))


@pytest.mark.parametrize("inner, outer", [(SerialLoop(2), ()), (SerialLoop(2), SerialLoop(2)), ("x", SerialLoop(4)),
                                          (SerialLoop(4), ("x", SerialLoop(2)))])
def test_nested_maps_with_serial_axes(inner, outer):
    def f(y, w):
        return xmap(lambda x: body(x, w) + lax.psum(x.sum(), "o"), (["b", ...],), ["b", ...], axis_resources={"b": inner})(y)

    def g(y, w):
        return jax.vmap(plain, (0, None))(y, w) + y.sum(0).sum(-1)[:, None]

    h = xmap(f, (["o", ...], {}), ["o", ...], axis_resources={"o": outer})
    y = np.stack([X, X + 1, X + 2, X + 3])
    with Mesh(DEVICES[:2], ("x",)):
        assert_close(h(y, W), g(y, W))
        assert_close(jax.grad(total(h), (0, 1))(y, W), jax.grad(total(g), (0, 1))(y, W))


SHIFT = [(k, (k + 3) % 8) for k in range(8)]
GROUPS = [[0, 5, 2, 7], [1, 4, 3, 6]]
COLLECTIVES = {
    "pmean": lambda x: lax.pmean(x, "b") - x,
    "pmin": lambda x: lax.pmin(jnp.sin(x), "b") * x,
    "sum of positions too": lambda x: jnp.sum(x * x, axis=("b", 0)) * x,
    "in groups": lambda x: lax.psum(x * x, "b", axis_index_groups=GROUPS) * x,
    "all_gather": lambda x: lax.all_gather(x * x, "b")[::2].sum(0) * x,
    "psum_scatter": lambda x: lax.psum_scatter(jnp.tile(x, 2) * lax.axis_index("b"), "b", tiled=True) * x,
    "all_to_all": lambda x: lax.all_to_all(jnp.tile(x, 2).reshape(8, 1), "b", 0, 1).sum() * x,
    "ppermute": lambda x: lax.ppermute(x * x, "b", SHIFT) * x,
    "pbroadcast": lambda x: lax.pbroadcast(x * x, "b", 5) * x,
    "pdot": lambda x: lax.pdot(x, x, axis_name="b") * x,
    "pargmax": lambda x: lax.pargmax(-x, "b") * x,
    "sort": lambda x: jnp.sort(jnp.sin(5 * x), axis="b") * x,
    "cumsum": lambda x: jnp.cumsum(x, axis="b") * x,
    "var": lambda x: jnp.var(x, axis="b") * x,
    "in a scan": lambda x: lax.scan(lambda c, v: (c + lax.psum(v * c, "b"), c * v), x[0], x)[1] * x,
    "in a while": lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] / lax.psum(s[1], "b")), (0, x))[1],
    "in a branch": lambda x: lax.cond(lax.psum(x[0], "b") > 0, lambda x: x * lax.psum(x, "b"), lambda x: x, x),
    "in varying branches": lambda x: lax.cond(x[0] > 2, lambda x: x * lax.psum(x, "b"), lambda x: x, x),
    "in a checkpoint": lambda x: jax.checkpoint(lambda x: jnp.sin(x) * lax.psum(x * x, "b"))(x),
    "in a jitted call": lambda x: jax.jit(lambda x: jnp.sin(x) * lax.psum(x * x, "b"))(x),
    "in a gradient": lambda x: jax.grad(lambda x: (x * lax.psum(x * x, "b")).sum())(x),
    "of replicated values": lambda x: lax.psum(W, "b") * lax.pmax(W, "b") * x,
    "small floats": lambda x: lax.psum(jnp.floor(x).astype(jnp.bfloat16), "b").astype(x.dtype) * x,
    "softmax": lambda x: jax.nn.softmax(jnp.sin(x), axis="b"),
    "log_softmax": lambda x: jax.nn.log_softmax(x * x, axis="b"),
    "layer norm": lambda x: (x - jnp.mean(x, axis="b")) * lax.rsqrt(jnp.var(x, axis="b") + 1e-3),
    "smallest to largest": lambda x: (x - lax.pmin(x, "b")) / (lax.pmax(x, "b") - lax.pmin(x, "b")),
    "maximum of a product and a sum": lambda x: jnp.exp(x * W + jnp.sin(x) - lax.pmax(x * W + jnp.sin(x), "b")),
    "of integers": lambda x: lax.psum((x * 8).astype(jnp.int8), "b") * x + lax.pmax(x > 2, "b"),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_over_a_serial_axis(name):
    f = COLLECTIVES[name]
    whole = xmap(f, ["b", ...], ["b", ...])
    runs = [lambda h: h(X), lambda h: jax.jit(jax.grad(total(h)))(X)]
    for run in runs[:1] if name == "in a while" else runs:  # a while loop without bound has no reverse derivative
        wide = [(SerialLoop(8),), *[("x", SerialLoop(2))] * (name != "in varying branches")]  # devices would deadlock there
        for resources in ((SerialLoop(4),), *(wide if WIDE else ())):
            with Mesh(DEVICES[:2], ("x",)):
                assert_close(run(xmap(f, ["b", ...], ["b", ...], axis_resources={"b": resources})), run(whole))


@pytest.mark.parametrize("name", ["all_gather", "ppermute", "psum_scatter", "pargmax", "sort", "softmax"])
def test_one_member_per_iteration_and_device(name):
    f = COLLECTIVES[name]
    whole, parts = xmap(f, ["b", ...], ["b", ...]), xmap(f, ["b", ...], ["b", ...], axis_resources={"b": ("x", SerialLoop(4))})
    with Mesh(DEVICES[:2], ("x",)):
        assert_close(parts(X), whole(X))
        assert_close(jax.grad(total(parts))(X), jax.grad(total(whole))(X))


def test_axis_index_over_two_serial_axes():
    y = np.stack([X, X + 1, X + 2, X + 3])
    f = lambda v: jnp.sort(v, axis="a") * lax.axis_index(("a", "b")) + lax.all_gather(v, ("b", "a"))[5].sum()  # noqa: E731
    whole = xmap(f, ["a", "b", ...], ["a", "b", ...])
    with Mesh(DEVICES[:4].reshape(2, 2), ("x", "y")):
        for iterations in ((2, 4), (2, 2)):
            h = xmap(f, ["a", "b", ...], ["a", "b", ...],
                     axis_resources={"a": ("x", SerialLoop(iterations[0])), "b": ("y", SerialLoop(iterations[1]))})
            assert_close(h(y), whole(y))
            assert_close(jax.grad(total(h))(y), jax.grad(total(whole))(y))


def test_one_loop_per_phase():
    def f(x, w):
        z = jnp.sin(x) * w.sum()
        return jnp.cos(z) * lax.psum(z, "b")

    h = xmap(f, (["b"], {}), ["b"], axis_resources={"b": SerialLoop(4)})
    text = jax.jit(h).lower(X[:, 0], W).as_text()
    assert text.count("stablehlo.while") == 2


def test_psum_over_a_mesh_is_one_all_reduce_after_the_loop():
    h = xmap(lambda x: lax.psum(jnp.sin(x), "b"), ["b", ...], [...], axis_resources={"b": ("x", SerialLoop(2))})
    with Mesh(DEVICES[:4], ("x",)):
        text = h.lower(X).compile().as_text()
    bodies = [part for part in text.split("\n\n") if " all-reduce" in part]
    assert text.count(" all-reduce(") + text.count(" all-reduce-start(") == 1
    assert "ENTRY" in bodies[0] and text.count(" while(") == 1


def test_separate_axes_may_share_a_loop():
    f = xmap(lambda x, y: (x * 2, lax.psum(y, "c")), (["a"], ["c"]), (["a"], {}), axis_resources={"a": "l", "c": "l"})
    with serial_loop("l", 2):
        assert_close(f(X[:, 0], X[:, 1]), (X[:, 0] * 2, X[:, 1].sum()))
        g = xmap(lambda x, y: x * y, (["a"], ["c"]), ["a", "c"], axis_resources={"a": "l", "c": "l"})
        with pytest.raises(ValueError, match="'a' and 'c' are both given the loop 'l', and meet in one value: `mul` at "):
            g(X[:, 0], X[:, 1])
    with pytest.raises(ValueError, match="no mesh is in scope"):
        f(X[:, 0], X[:, 1])


def test_callbacks_run_for_each_member(capfd):
    f = xmap(lambda x: (jax.debug.print("{}", x), lax.psum(x, "b"))[1], ["b"], {}, axis_resources={"b": SerialLoop(4)})
    assert float(f(np.arange(8, dtype=np.float32))) == 28
    jax.effects_barrier()
    assert sorted(map(float, capfd.readouterr().out.split())) == list(range(8))


def test_deeply_nested_calls_over_a_serial_axis():
    f = g = lambda x: jnp.sin(x) * lax.psum(x, "b")
    for _ in range(60):
        g = jax.checkpoint(g)
    h, deep = [xmap(fun, {0: "b"}, {0: "b"}, axis_resources={"b": SerialLoop(4)}) for fun in (f, g)]
    assert_close(jax.grad(total(deep))(X[:, 0]), jax.grad(total(h))(X[:, 0]))
