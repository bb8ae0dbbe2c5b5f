"""Maps inside programs: shards stay on their devices, and the compiled module has the expected collectives only."""
import re

import numpy as np
import pytest
from lamina_autodiff import checkpoint, grad, jvp, linearize, vjp
from lamina_batching import vmap
from lamina_ir import CheckError, trees
from lamina_parallel import pmap, psum
from lamina_runtime import device_put, devices, effects_barrier, transfer_counts
from lamina_tracing import debug, io_callback, jit, lax

pytestmark = pytest.mark.devices
RNG = np.random.RandomState(0)
X = RNG.randn(8, 4).astype(np.float32)
Y = RNG.randn(8, 3, 4).astype(np.float32)
ROWS = pmap(lambda x: x)(X).sharding
NAMES = re.compile(r"= .*?(all-reduce|all-gather|all-to-all|collective-permute|collective-broadcast|reduce-scatter)\(")


def member(x):
    return lax.add(lax.sin(x), lax.mul(psum(x, "i"), 0.25))


def host_reference(x):
    """Return the same for the whole array."""
    return np.sin(x) + x.sum(0) * 0.25


f = pmap(member, axis_name="i")


def collectives(fn, *args):
    return set(NAMES.findall(jit(fn).lower(*args).compile().as_text()))


def total(x):
    return lax.reduce_sum(lax.mul(x, x), tuple(range(x.ndim)))


def three_times(step, x):
    return lax.scan(lambda c, _: (lax.mul(step(c), 0.5), None), x, None, length=3)[0]


def thrice(step, x):
    for _ in range(3):
        x = step(x) * 0.5
    return x


WORK = {
    "before and after": (lambda x: lax.add(f(lax.mul(x, x)), 1.0), lambda x: host_reference(x * x) + 1),
    "twice": (lambda x: f(f(x)), lambda x: host_reference(host_reference(x))),
    "in scan": (lambda x: three_times(f, x), lambda x: thrice(host_reference, x)),
    "in fori_loop": (lambda x: lax.fori_loop(0, 3, lambda _, c: lax.mul(f(c), 0.5), x), lambda x: thrice(host_reference, x)),
    "in while_loop": (lambda x: lax.while_loop(lambda c: lax.lt(c[0], 3), lambda c: (lax.add(c[0], 1), lax.mul(f(c[1]), 0.5)),
                                               (0, x))[1], lambda x: thrice(host_reference, x)),
    "in cond": (lambda x: lax.cond(lax.gt(x[0, 0], -9.0), f, lambda x: x, x), host_reference),
    "scan inside": (lambda x: pmap(lambda r: three_times(member, r), axis_name="i")(x), lambda x: thrice(host_reference, x)),
    "jit inside": (lambda x: pmap(jit(member), axis_name="i")(x), host_reference),
    "checkpoint": (lambda x: checkpoint(f)(x), host_reference),
}


@pytest.mark.parametrize("name", WORK)
def test_shards_stay_on_their_devices(name):
    work, plain = WORK[name]
    x = device_put(X, ROWS)
    for given in (x, X):
        out = jit(work)(given)
        np.testing.assert_allclose(out, plain(X), rtol=1e-5, atol=1e-5)
        assert out.sharding == ROWS
    assert collectives(work, x) == {"all-reduce"}
    again, before = jit(work), transfer_counts()
    for _ in range(3):
        x = again(x)
    assert transfer_counts() == before and x.sharding == ROWS


DERIVED = {
    "jvp": lambda g: lambda x: jvp(g, (x,), (x,))[1],
    "vjp": lambda g: lambda x: vjp(g, x)[1](x)[0],
    "linearize": lambda g: lambda x: linearize(g, x)[1](x),
    "grad": lambda g: grad(lambda x: total(g(x))),
    "grad of a checkpoint": lambda g: grad(lambda x: total(checkpoint(g)(x))),
    "grad of a scan": lambda g: grad(lambda x: total(three_times(g, x))),
}


@pytest.mark.parametrize("name", DERIVED)
def test_derivatives_stay_sharded(name):
    make = DERIVED[name]
    x = device_put(X, ROWS)
    wanted = make(lambda x: vmap(member, axis_name="i")(x))(X)
    out = jit(make(f))(x)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    assert out.sharding == ROWS and collectives(make(f), x) == {"all-reduce"}


def test_vmap_of_a_pmap_and_pmap_of_a_vmap():
    out = jit(vmap(f))(np.moveaxis(Y, 1, 0))
    np.testing.assert_allclose(out, np.moveaxis(host_reference(Y), 1, 0), rtol=1e-5)
    assert out.sharding.mapped_dims == (1,)
    out = jit(pmap(vmap(member), axis_name="i"))(Y)
    np.testing.assert_allclose(out, host_reference(Y), rtol=1e-5)


def test_jit_of_a_single_pmap_is_the_pmap():
    low = jit(f).lower(X)
    assert "num_replicas = 8" in low.as_text() and "sdy" not in low.as_text()
    assert jit(f)(X).sharding == ROWS


def test_nested_maps_are_sharded_over_both_axes():
    z = RNG.randn(2, 4, 3).astype(np.float32)
    g = pmap(pmap(lambda x: lax.add(x, lax.add(psum(x, "i"), lax.mul(psum(x, "j"), 2.0))), axis_name="j"), axis_name="i")
    wanted = z + z.sum(0) + 2 * z.sum(1, keepdims=True)
    for call in (g, jit(g), jit(lambda z: lax.mul(g(z), 1.0))):
        out = call(z)
        np.testing.assert_allclose(out, wanted, rtol=1e-5)
        assert out.sharding.mapped_dims == (0, 1)
        np.testing.assert_allclose(call(call(z)), call(np.asarray(call(z))), rtol=1e-4)

    def work(r):  # contains the inner map
        return lax.mul(pmap(lambda s: lax.add(s, psum(s, ("i", "j"))), axis_name="j")(lax.mul(r, 2.0)), psum(r, "i"))

    out = pmap(work, axis_name="i")(z)
    np.testing.assert_allclose(out, (2 * z + 2 * z.sum((0, 1))) * z.sum(0), rtol=1e-5)
    assert out.sharding.mapped_dims == (0, 1)


def test_nested_maps_on_given_devices():
    z = RNG.randn(2, 4, 3).astype(np.float32)
    inner = pmap(lambda x: lax.add(x, psum(x, ("i", "j"))), axis_name="j")
    out = pmap(inner, axis_name="i", devices=devices()[::-1])(z)
    np.testing.assert_allclose(out, z + z.sum((0, 1)), rtol=1e-5)
    assert [d.id for d in out.sharding._internal_device_list] == [7, 6, 5, 4, 3, 2, 1, 0]
    with pytest.raises(ValueError, match="take 8 devices together; one of them names"):
        pmap(lambda x: pmap(lambda y: y, devices=devices()[:4])(x))(z)


def test_in_axes_and_out_axes_of_nested_maps():
    t = RNG.randn(3, 4, 2).astype(np.float32)
    g = pmap(pmap(lambda r, s: lax.add(lax.add(r, lax.convert_element_type(lax.axis_index("i"), "float32")), s),
                  axis_name="j", in_axes=(1, None), out_axes=1), axis_name="i", in_axes=(2, None), out_axes=2)
    for call in (g, jit(g)):
        np.testing.assert_allclose(call(t, 3.0), t + np.arange(2) + 3, rtol=1e-6)


def everything(r):
    return {"sum": psum(r, "i"), "max": lax.pmax(r, "i"), "min": lax.pmin(r, "i"), "gather": lax.all_gather(r, "i"),
            "tiled": lax.all_gather(r, "i", axis=1, tiled=True), "scatter": lax.psum_scatter(r, "i"),
            "exchange": lax.all_to_all(r, "i", 0, 1), "joined": lax.all_to_all(r, "i", 0, 1, tiled=True),
            "sent": lax.ppermute(r, "i", [(0, 1)]), "where": lax.axis_index("i")}


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8])
def test_maps_of_any_size_with_a_map_over_all_devices(n):
    a = RNG.randint(-9, 9, (n, n, 2)).astype(np.int32)
    each = everything if n > 1 else lambda r: psum(r, "i")
    wanted = vmap(each, axis_name="i")(a)
    out, rest = jit(lambda a, x: (pmap(each, axis_name="i")(a), f(x)))(a, X)
    trees.tree_map(np.testing.assert_array_equal, out, wanted)
    np.testing.assert_allclose(rest, host_reference(X), rtol=1e-5)


def test_maps_over_three_and_five_devices():
    a, b = RNG.randn(3, 4).astype(np.float32), RNG.randn(5, 4).astype(np.float32)
    out = jit(lambda a, b: (pmap(member, axis_name="i")(a), pmap(member, axis_name="i")(b)))(a, b)
    np.testing.assert_allclose(out[0], host_reference(a), rtol=1e-5)
    np.testing.assert_allclose(out[1], host_reference(b), rtol=1e-5)
    assert len(out[1].devices()) == 5
    on_three, on_five = pmap(lambda x: x)(a), pmap(lambda x: x)(b)
    out = jit(lambda a, b: (pmap(member, axis_name="i")(a), pmap(member, axis_name="i")(b)))(on_three, on_five)
    np.testing.assert_allclose(out[0], host_reference(a), rtol=1e-5)
    with pytest.raises(ValueError, match="effects would also happen on the others"):
        jit(lambda a, x: (pmap(lambda r: debug.print("{}", r), axis_name="i")(a), f(x)))(a, X)


def test_devices_in_any_order():
    backwards = pmap(lambda x: x, devices=devices()[::-1])(X)
    out = jit(lambda x: lax.mul(f(x), 2.0))(backwards)
    np.testing.assert_allclose(out, 2 * host_reference(X), rtol=1e-5)
    assert out.sharding == backwards.sharding
    both = jit(lambda x, y: lax.add(f(x), y))(backwards, device_put(X, ROWS))
    np.testing.assert_allclose(both, host_reference(X) + X, rtol=1e-5)
    flipped = jit(lambda x: f(lax.rev(x, (0,))))(device_put(X, ROWS))
    np.testing.assert_allclose(flipped, host_reference(X[::-1]), rtol=1e-5)
    again = jit(lambda x: lax.add(f(x), 1.0))(lax.rev(device_put(X, ROWS), (0,)))
    np.testing.assert_allclose(again, host_reference(X[::-1]) + 1, rtol=1e-5)


def test_captured_arrays_of_a_map():
    big = RNG.randn(4, 100).astype(np.float32)

    def g(x):
        return lax.add(pmap(lambda r: lax.dot(r, big))(x), big[:1])

    np.testing.assert_allclose(jit(g)(X), X @ big + big[:1], rtol=1e-4, atol=1e-5)
    deep = jit(lambda x: lax.add(jit(g)(x), jit(g)(lax.mul(x, 2.0))))
    np.testing.assert_allclose(deep(X), 3 * X @ big + 2 * big[:1], rtol=1e-4, atol=1e-4)


def test_donated_shards():
    x = pmap(lambda x: x)(X)
    step = jit(lambda x: lax.mul(f(x), 0.5), donate_argnums=0)
    np.testing.assert_allclose(step(x), host_reference(X) / 2, rtol=1e-5)
    assert x.is_deleted()


def test_callbacks_run_on_every_member():
    def g(x):
        debug.callback(lambda v: seen.append(float(v)), x[0])
        return lax.mul(x, 2.0)

    seen = []
    out = jit(lambda x: lax.add(pmap(g)(x), 1.0))(X)
    np.testing.assert_allclose(out, X * 2 + 1, rtol=1e-6)
    effects_barrier()
    np.testing.assert_allclose(sorted(seen), sorted(X[:, 0]), rtol=1e-6)


def test_callbacks_in_an_outer_map_run_once_per_member():
    seen = []

    def g(x):
        number = io_callback(lambda i: (seen.append(int(i)), np.float32(i))[1], np.float32(0), lax.axis_index("i"))
        debug.callback(lambda i: seen.append(int(i)), lax.axis_index("i"))
        return lax.add(pmap(lambda v: psum(v, "j"), "j")(x), number)

    x = np.ones((4, 2, 3), np.float32)
    for call in (pmap(g, "i"), jit(lambda x: lax.mul(pmap(g, "i")(x), 1.0))):
        seen.clear()
        np.testing.assert_array_equal(call(x), 2 * x + np.arange(4, dtype=np.float32)[:, None, None])
        effects_barrier()
        assert sorted(seen) == [0, 0, 1, 1, 2, 2, 3, 3]
    few = pmap(lambda x: (debug.check(lax.gt(lax.reduce_sum(x, (0, 1)), 0.), "below 0"), pmap(lambda v: v, "j")(x))[1], "i")
    np.testing.assert_array_equal(few(x[:3]), x[:3])
    with pytest.raises(CheckError, match="below 0.* on device cpu:4, at index 2 of axis 'i' of 3"):
        few(np.stack([x[0], x[0], -x[0]]))


def test_cleared_pmap_traces_again():
    staged = []

    def g(x):
        staged.append(x)
        return psum(x, "i")

    call = pmap(g, axis_name="i")
    for _ in range(4):
        call(X)
    assert len(staged) == 1
    call.clear_cache()
    call(X)
    assert len(staged) == 2


def test_callbacks_outside_a_map_receive_whole_arrays():
    seen = []

    def g(x):
        debug.callback(lambda v: seen.append(np.array(v)), x)
        return lax.add(f(x), 1.0)

    np.testing.assert_allclose(jit(g)(X), host_reference(X) + 1, rtol=1e-5)
    effects_barrier()
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], X)


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
@pytest.mark.parametrize("reduction", [lax.pmax, lax.pmin])
def test_derivative_of_pmax_and_pmin_of_rounded_operands(reduction, wrap):
    times = np.arange(1, 6, dtype=np.float32)[:, None]

    def f(x):
        parts = lax.psum_scatter(lax.mul(lax.broadcast_in_dim(x, (5, 2), (1,)), times), "i")
        number = lax.convert_element_type(lax.axis_index("i"), "float32")
        return reduction(lax.add(lax.div(lax.div(parts, 5.), 5.), lax.mul(number, np.float32(0.01))), "i")

    x = np.random.RandomState(1).randn(5, 2).astype(np.float32)
    _, found = wrap(lambda x: jvp(pmap(f, axis_name="i"), (x,), (x,)))(x)
    tangents = x.sum(0) / 25  # of member k: k + 1 times this
    ks = np.arange(5)[:, None]
    values = tangents * (ks + 1) + np.float32(0.01) * ks
    at = (values.argmax if reduction is lax.pmax else values.argmin)(0)
    np.testing.assert_allclose(found, np.tile(tangents * (at + 1), (5, 1)), rtol=1e-5)
