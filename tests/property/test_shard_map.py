"""`shard_map` on devices: results, shardings, collectives of the compiled program, and errors."""
from __future__ import annotations

import math
import os
import re

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import checkpoint, custom_vjp, grad, jit, jvp, lax, make_jaxpr, pmap, shard_map, vmap
from lamina.sharding import Mesh, NamedSharding
from lamina.sharding import PartitionSpec as P
from lamina_ir import evaluate
from lamina_runtime import transfer_counts

pytestmark = pytest.mark.devices
_FOUND = re.compile(r" (all-reduce|all-gather|collective-permute|all-to-all|reduce-scatter)(?:-start)?\(")


def mesh_of(sizes=(4, 2), names=("x", "y"), order=None):
    devices = np.array(lamina.devices())
    return Mesh(devices[list(order or range(math.prod(sizes)))].reshape(sizes), names)


def collectives(fun, *args):
    return sorted(_FOUND.findall(fun.lower(*args).compile().as_text()))


def numbers(*shape):
    return np.sin(np.arange(math.prod(shape), dtype=np.float32)).reshape(shape)


def assert_close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


ORDERS = [None, [3, 1, 2, 0, 7, 5, 6, 4]]


@pytest.mark.parametrize("order", ORDERS)
def test_matrix_product_and_gradients_have_only_the_named_collectives(order):
    mesh, a, b = mesh_of(order=order), numbers(8, 16), numbers(16, 4)
    product = shard_map(lambda a, b: lax.psum(a @ b, "y"), mesh, (P("x", "y"), P("y", None)), P("x"))
    out = product(a, b)
    assert_close(out, a @ b)
    assert out.sharding == NamedSharding(mesh, P("x")) and out.sharding.spec == P("x") and out.sharding.mesh == mesh
    assert [s.device for s in out.addressable_shards if s.index[0] == slice(0, 2)] == mesh.devices[0].tolist()
    inside = jit(lambda a, b: jnp.tanh(product(a * 2, b)))
    assert_close(inside(a, b), np.tanh(2 * a @ b))
    assert collectives(product, a, b) == collectives(inside, a, b) == ["all-reduce"]
    step = jit(grad(lambda a, b: (product(a, b) ** 2).sum(), (0, 1)))
    wanted = grad(lambda a, b: ((a @ b) ** 2).sum(), (0, 1))(jnp.asarray(a), jnp.asarray(b))
    for found, exact, spec in zip(step(a, b), wanted, (P("x", "y"), P("y"))):
        assert_close(found, exact)
        assert found.sharding.spec == spec
    assert collectives(step, a, b) == ["all-reduce"] * 2  # for the product, and for the cotangent of b over x


def test_each_collective_compiles_to_one_hlo_collective():
    mesh, x = mesh_of(), np.arange(64, dtype=np.int32).reshape(8, 8)
    ring = [(i, (i + 1) % 4) for i in range(4)]
    table = {
        "all-gather": (lambda v: lax.all_gather(v, "x", tiled=True), P("x"), P(), lambda x: x),
        "reduce-scatter": (lambda v: lax.psum_scatter(v, "x", tiled=True), P(None, "y"), P("x", "y"), lambda x: x * 4),
        "collective-permute": (lambda v: lax.ppermute(v, "x", ring), P("x", "y"), P("x", "y"), lambda x: np.roll(x, 2, 0)),
        "all-to-all": (lambda v: lax.all_to_all(v, "x", 1, 0, tiled=True), P("x"), P(None, "x"), lambda x: x),
        "all-reduce": (lambda v: lax.psum(v, ("y", "x")), P("x", "y"), P(),
                       lambda x: x.reshape(4, 2, 2, 4).sum((0, 2)))}
    for name, (body, ins, outs, meaning) in table.items():
        f = shard_map(body, mesh, ins, outs)
        inside = jit(lambda x, f=f: f(x + 1))
        assert np.array_equal(f(x), meaning(x)) and np.array_equal(inside(x), meaning(x + 1)), name
        assert collectives(f, x) == collectives(inside, x) == [name]


def test_loops_and_branches_add_no_collectives():
    mesh, x = mesh_of(), numbers(8, 2)
    ring = shard_map(lambda v: lax.ppermute(v, "x", [(i, (i + 1) % 4) for i in range(4)]), mesh, P("x"), P("x"))
    looped = jit(lambda x: lax.scan(lambda c, _: (ring(c), None), x, None, length=3)[0])
    assert np.array_equal(looped(x), np.roll(x, 6, 0)) and collectives(looped, x) == ["collective-permute"]
    chosen = jit(lambda go, x: lax.cond(go, ring, lambda x: x * 2, x))
    assert np.array_equal(chosen(True, x), np.roll(x, 2, 0)) and np.array_equal(chosen(False, x), x * 2)
    within = shard_map(lambda v: lax.scan(lambda c, _: (c + lax.psum(v, "x"), None), jnp.zeros((2, 2)), None, length=2)[0],
                       mesh, P("x"), P())
    assert_close(within(x), 2 * x.reshape(4, 2, 2).sum(0))


@pytest.mark.parametrize("mesh", [mesh_of((8,), ("x",), range(7, -1, -1)), mesh_of((2, 2, 2), ("x", "y", "z")),
                                  mesh_of((2, 3), order=[5, 1, 0, 2, 7, 3]), mesh_of((1, 2)), mesh_of((1,), ("x",), [3])])
def test_meshes_of_any_shape_order_and_subset(mesh):
    x, names = np.arange(2 * mesh.size * 3).reshape(2 * mesh.size, 3).astype(np.int32), mesh.axis_names

    def body(v):
        return v + lax.axis_index(names) * 100, lax.psum(v, names)

    f = shard_map(body, mesh, P(names), (P(names), P()))
    wanted = x + np.repeat(np.arange(mesh.size), 2)[:, None] * 100, x.reshape(mesh.size, 2, 3).sum(0)
    for run in (f, jit(f), jit(lambda x: [y + 0 for y in f(x + 0)])):
        for found, exact in zip(run(x), wanted):
            assert np.array_equal(found, exact)
            assert found.sharding.device_set == {*mesh.flat_devices}


# --- random programs ----------------------------------------------------------------------------------------------
def random_program(seed):
    """Return (function of a block, mesh, specs, array) of the random program of a seed."""
    rng = np.random.default_rng(seed)
    sizes = [(8,), (4, 2), (2, 4), (2, 2, 2), (2, 3), (3, 2)][rng.integers(6)]
    names = ("x", "y", "z")[:len(sizes)]
    mesh = mesh_of(sizes, names, rng.permutation(8)[:math.prod(sizes)].tolist())
    owner = rng.integers(-1, 2, len(names))  # the dimension that each axis splits, or none
    ins = P(*[tuple(rng.permutation([n for n, d in zip(names, owner) if d == k]).tolist()) or None for k in range(2)])
    shape = tuple([n * math.prod([mesh.shape[a] for a in names]) for n in rng.integers(1, 3, 2)])
    steps = []
    for kind in rng.integers(0, 6, 4):
        axis = names[rng.integers(len(names))]
        n = mesh.shape[axis]
        steps.append([
            lambda v, a=axis: v * 3 + lax.psum(v, a), lambda v, a=axis: v - lax.axis_index(a),
            lambda v, a=axis, n=n: lax.ppermute(v, a, [(i, (i + 1) % n) for i in range(n)]) + v,
            lambda v, a=axis: lax.pmax(v, a) - 2 * v,
            lambda v, a=axis: lax.all_gather(v, a).sum(0) + v,
            lambda v, a=axis: lax.scan(lambda c, _: (lax.psum(c, a) - c, None), v, None, length=2)[0]][kind])

    def body(v):
        for step in steps:
            v = step(v)
        return v

    rest = tuple([n for n in names if not any(n == a for e in ins if e for a in e)])
    outs = P(*[(*(e or ()), *(rest if k == 0 else ())) or None for k, e in enumerate(ins)])
    return body, mesh, ins, outs, rng.integers(-9, 9, shape).astype(np.int32)


COUNT = 40 if os.environ.get("LAMINA_WIDE") else 5


@pytest.mark.parametrize("seed", range(COUNT))
def test_random_programs_match_numpy(seed):
    body, mesh, ins, outs, x = random_program(seed)
    f = shard_map(body, mesh, ins, outs)
    wanted = evaluate(make_jaxpr(f)(x), x)[0]
    assert np.array_equal(f(x), wanted)
    assert np.array_equal(jit(lambda x: f(x * 2 - x) + 1)(x), wanted + 1)

    def loss(x):
        return (f(x.astype("float32")) * jnp.asarray(numbers(*wanted.shape))).sum()

    g = np.asarray(jit(grad(loss))(x.astype(np.float32)))
    np.testing.assert_allclose(g, np.asarray(evaluate(make_jaxpr(grad(loss))(x.astype(np.float32)), x.astype(np.float32))[0]),
                               rtol=1e-4, atol=1e-4 * max(1, abs(g).max()))


# --- several maps in one program ----------------------------------------------------------------------------------
def test_nested_shard_maps_over_other_axes():
    for order in ORDERS:
        mesh = mesh_of(order=order)

        def inner(v):
            return v + lax.axis_index("y") + lax.psum(lax.axis_index("x"), "x") * 0, lax.psum(v, "y")

        def outer(x, mesh=mesh, inner=inner):
            y, total = shard_map(inner, mesh, P("y"), (P("y"), P()), auto={"x"})(x)
            return y * 10 + lax.axis_index("x"), lax.psum(total.sum(), "x")

        f = jit(lambda x, outer=outer, mesh=mesh: shard_map(outer, mesh, P("x"), (P("x"), P()), axis_names={"x"})(x))
        x = np.arange(16, dtype=np.int32)
        y, total = f(x)
        assert np.array_equal(y, (x + np.tile(np.repeat([0, 1], 2), 4)) * 10 + np.repeat(np.arange(4), 4))
        assert total == x.sum()


def test_auto_axes():
    mesh, x, w = mesh_of(), numbers(8, 4), numbers(4, 6)
    f = jit(shard_map(lambda x, w: lax.psum(jnp.tanh(x @ w), "x"), mesh, (P("x"), P()), P(), axis_names={"x"}))
    placed = lamina.device_put(w, NamedSharding(mesh, P(None, "y")))
    assert_close(f(x, placed), np.tanh(x @ w).reshape(4, 2, 6).sum(0))
    assert collectives(f, x, placed) == ["all-reduce"] and f(x, placed).sharding.spec == P(None, "y")


def test_two_meshes_and_a_pmap_in_one_program():
    one, other, x = mesh_of(), mesh_of((2, 4), ("a", "b"), range(7, -1, -1)), np.arange(16, dtype=np.int32)

    def f(x):
        y = shard_map(lambda v: v + lax.axis_index("x"), one, P("x"), P("x"))(x)
        z = shard_map(lambda v: v * 2 + lax.axis_index("b"), other, P("b"), P("b"))(y)
        return pmap(lambda row: row - lax.psum(row, "i"), axis_name="i")(z.reshape(8, 2))

    z = (x + np.repeat(np.arange(4), 4)) * 2 + np.repeat(np.arange(4), 4)
    assert np.array_equal(jit(f)(x), z.reshape(8, 2) - z.reshape(8, 2).sum(0))


def test_transformations_around_and_inside_shard_map():
    mesh, x, w = mesh_of(), numbers(8, 4), numbers(4, 4)

    @custom_vjp
    def doubling(x):
        return x

    doubling.defvjp(lambda x: (x, ()), lambda _, ct: (2 * ct,))

    def local(x, w):
        return lax.psum((doubling(checkpoint(jnp.sin)(x @ w)) ** 2).sum(), ("x",))

    def plain(x, w):
        return (doubling(jnp.sin(x @ w)) ** 2).sum()

    f = shard_map(local, mesh, (P("x"), P()), P())
    for found, exact in zip(jit(grad(checkpoint(f), (0, 1)))(x, w), grad(plain, (0, 1))(x, w)):
        assert_close(found, exact)
    smooth = shard_map(lambda x, w: lax.psum(jnp.sin(x @ w).sum(), "x"), mesh, (P("x"), P()), P())
    assert_close(jvp(jit(smooth), (x, w), (x, w))[1], jvp(lambda x, w: jnp.sin(x @ w).sum(), (x, w), (x, w))[1])
    assert_close(jit(vmap(f, (None, 0), spmd_axis_name="y"))(x, np.stack([w, w + 1])), [plain(x, w), plain(x, w + 1)])
    assert_close(jit(vmap(grad(f, 1), (0, None)))(np.stack([x, x + 1]), w), [grad(plain, 1)(x, w), grad(plain, 1)(x + 1, w)])
    each = shard_map(lambda x, w: grad(lambda w: (jnp.sin(x @ w) ** 2).sum())(w)[None], mesh, (P("x"), P()), P("x"))
    assert_close(each(x, w).sum(0), grad(lambda w: (jnp.sin(x @ w) ** 2).sum())(w))
    rows = shard_map(lambda v: vmap(lambda r: lax.psum(r, "x") * 2)(v), mesh, P("x"), P())
    assert_close(rows(x), 2 * x.reshape(4, 2, 4).sum(0))


def test_captured_values_and_large_constants_are_replicated():
    mesh, table, x = mesh_of(), numbers(500), np.arange(8, dtype=np.int32)
    f = shard_map(lambda i: jnp.asarray(table)[i], mesh, P(("x", "y")), P(("x", "y")))
    assert_close(jit(lambda x: f(x) + 1)(x), table[:8] + 1)
    assert_close(grad(lambda s: shard_map(lambda v: v * s, mesh, P("x"), P("x"))(table[:8]).sum())(2.0), table[:8].sum())


# --- shardings ----------------------------------------------------------------------------------------------------
def test_arguments_with_matching_shardings_are_not_moved():
    mesh = mesh_of(order=ORDERS[1])
    f = shard_map(lambda a, b: a + lax.psum(b, "y"), mesh, (P("x"), P(None, "y")), P("x"))
    a = lamina.device_put(numbers(8, 4), NamedSharding(mesh, P("x")))
    b = lamina.device_put(numbers(2, 8), NamedSharding(mesh, P(None, "y")))
    inside = jit(lambda a, b: f(a, b) * 2)
    for run in (f, jit(f), inside):
        run(a, b)
        before = transfer_counts()
        out = run(a, b)
        assert transfer_counts() == before
        assert out.sharding.spec == P("x")
    assert f(numbers(8, 4), numbers(2, 8)).sharding == out.sharding  # host arrays are sharded when put on devices


def test_argument_committed_to_other_devices_is_refused():
    mesh, far = mesh_of((2,), ("x",)), lamina.device_put(numbers(4), lamina.devices()[5])
    f = shard_map(lambda v: v, mesh, P("x"), P("x"))
    for run in (f, jit(lambda v: f(v) + 1)):
        with pytest.raises(ValueError, match=r"committed to \[cpu:5\]; the mesh of shard_map .* is of \[cpu:0, cpu:1\]"):
            run(far)


def test_in_shardings_in_another_order_of_the_devices():
    mesh, other = mesh_of(), mesh_of(order=ORDERS[1])
    x = np.arange(16, dtype=np.int32)
    f = shard_map(lambda v: v + lax.axis_index("x"), mesh, P("x"), P("x"))
    run = jit(f, in_shardings=NamedSharding(other, P("y")), out_shardings=NamedSharding(other, P("x")))
    out = run(x)
    assert np.array_equal(out, x + np.repeat(np.arange(4), 4)) and out.sharding == NamedSharding(other, P("x"))


def test_mesh_in_scope_at_the_call_is_used():
    f = shard_map(lambda v: lax.psum(v, "x"), in_specs=P("x"), out_specs=P())
    x = np.arange(8, dtype=np.int32)
    for size in (4, 2):
        with mesh_of((size,), ("x",)):
            assert np.array_equal(f(x), x.reshape(size, -1).sum(0)) and np.array_equal(jit(f)(x), x.reshape(size, -1).sum(0))


# --- common programs: the numbers are those of jax 0.10.2 -------------------------------------------------------------
def common_programs(np, jnp, lax, jax, shard_map, P, mesh):
    def arr(*shape):
        return np.sin(np.arange(int(np.prod(shape)), dtype=np.float32)).reshape(shape)

    def total(x):
        x = np.asarray(x, np.float64)
        return float((x * np.cos(np.arange(x.size)).reshape(x.shape)).sum())

    # 1. a product, followed by psum_scatter
    scattered = shard_map(lambda a, b: lax.psum_scatter(a @ b, "y", scatter_dimension=1, tiled=True), mesh=mesh,
                          in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", "y"))
    yield total(jax.jit(scattered)(arr(8, 6), arr(6, 4)))

    # 2. a product whose operand is passed around the ring
    def overlapped(a, b):
        n, me = 4, lax.axis_index("x")
        size = a.shape[1] // n

        def step(i, carry):
            acc, b = carry
            part = lax.dynamic_slice_in_dim(a, ((me + i) % n) * size, size, 1)
            return acc + part @ b, lax.ppermute(b, "x", [(j, (j - 1) % n) for j in range(n)])

        start = a[:, :1] * 0 + b[:1] * 0
        return lax.fori_loop(0, n, step, (start, b))[0]

    around = shard_map(overlapped, mesh=mesh, in_specs=(P("x", None), P("x", None)), out_specs=P("x", None))
    yield total(jax.jit(around)(arr(8, 8), arr(8, 4)))

    # 3. a training step, data over x
    def loss(w, x, y):
        h = jnp.tanh(x @ w["a"])
        return lax.pmean(((h @ w["b"] - y) ** 2).mean(), "x")

    step = shard_map(loss, mesh=mesh, in_specs=(P(), P("x"), P("x")), out_specs=P())
    w = {"a": arr(4, 8), "b": arr(8, 2)}
    value, g = jax.jit(jax.value_and_grad(step))(w, arr(16, 4), arr(16, 2))
    yield float(value)
    yield total(g["a"])
    yield total(g["b"])

    # 4. attention: heads over y, queries over x
    def attend(q, k, v):
        k, v = lax.all_gather(k, "x", axis=1, tiled=True), lax.all_gather(v, "x", axis=1, tiled=True)
        s = jnp.einsum("hqd,hkd->hqk", q, k) / 2
        p = jnp.exp(s - s.max(-1, keepdims=True))
        return jnp.einsum("hqk,hkd->hqd", p / p.sum(-1, keepdims=True), v)

    spec = P("y", "x", None)
    heads = shard_map(attend, mesh=mesh, in_specs=(spec, spec, spec), out_specs=spec)
    yield total(jax.jit(heads)(arr(4, 8, 4), arr(4, 8, 4) + 1, arr(4, 8, 4) * 2))
    yield total(jax.grad(lambda q: (heads(q, arr(4, 8, 4) + 1, arr(4, 8, 4) * 2) ** 2).sum())(jnp.asarray(arr(4, 8, 4))))

    # 5. experts: tokens are sent to the device of their expert, and back
    def experts(x, w):
        sent = lax.all_to_all(x.reshape(4, -1, x.shape[-1]), "x", 0, 0, tiled=True)
        return lax.all_to_all(jnp.maximum(sent @ w[0], 0), "x", 0, 0, tiled=True).reshape(x.shape[0], -1)

    moe = shard_map(experts, mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P("x"))
    yield total(jax.jit(moe)(arr(32, 4), arr(4, 4, 4)))
    yield total(jax.jit(jax.grad(lambda w: (moe(arr(32, 4), w) ** 2).sum()))(jnp.asarray(arr(4, 4, 4))))


COMMON_RESULTS = [-0.8695466, -0.134505, 1.0032932, -0.0502746, 0.1788159, 0.688239, 1.4453621, 2.2027897, -0.078358]


def test_common_programs_match_jax():
    results = [*common_programs(np, jnp, lax, lamina, shard_map, P, mesh_of())]
    np.testing.assert_allclose(results, COMMON_RESULTS, rtol=2e-5, atol=2e-5)
