"""`xmap` over a mesh of devices of several processes: each passes and gets its own members, with the results of one process
with all devices."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

pytestmark = pytest.mark.slow

WIDE = bool(os.environ.get("LAMINA_WIDE"))

COMMON = """
from lamina import lax
from lamina.experimental.maps import Mesh, xmap

def make_mesh(shape, at, seed):
    \"\"\"Return a mesh of all devices whose positions along one axis belong to the processes in random order.\"\"\"
    draw = np.random.default_rng(seed)
    left = [[d for d in lamina.devices() if d.process_index == p] for p in range(processes)]
    order = draw.permutation(np.repeat(np.arange(processes), shape[at] // processes))
    rest = [n for k, n in enumerate(shape) if k != at]
    grid = np.stack([np.array([left[p].pop(0) for _ in range(int(np.prod(rest)))], object).reshape(rest) for p in order], at)
    return Mesh(grid, tuple("xyz"[:len(shape)]))

def own(mesh, size, axes):
    \"\"\"Return the positions of this process along an axis of this size with these resources.\"\"\"
    axes = [a for a in axes if a in mesh.axis_names]
    mine = np.nonzero(np.array([d.process_index for d in mesh.flat_devices]).reshape(mesh.devices.shape) == rank)
    at = dict(zip(mesh.axis_names, map(np.unique, mine)))
    places = np.arange(size).reshape([mesh.shape[a] for a in axes] + [-1])
    return places[np.ix_(*[at[a] for a in axes])].reshape(-1)

def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and np.allclose(got, want, rtol=1e-4, atol=1e-4), (got, want)
"""

LAW = COMMON + """
sys.path.insert(0, LAWS)
import test_xmap as laws

laws.SHAPES = SHAPES
for seed in SEEDS:
    names, fun, placed, args, text = laws.random_program(seed)
    shape = laws.SHAPES[seed % 3]
    resources = laws.random_resources(seed, names)
    fits = [k for k, n in enumerate(shape) if n % processes == 0]  # prefer an axis that is used as a resource
    taken = [k for k in fits if any("xyz"[k] in mine for mine in resources.values())] or fits
    mesh = make_mesh(shape, taken[seed // 3 % len(taken)], seed)
    outs = [*reversed(names), ...]
    sizes = {n: laws.SIZES[n] for n in names}
    whole = xmap(fun, tuple(placed), outs, axis_sizes=sizes)
    f = xmap(fun, tuple(placed), outs, axis_sizes=sizes, axis_resources=resources)

    def part(x, places):
        return x[np.ix_(*[own(mesh, n, resources[places[d]]) if places.get(d) in resources else range(n)
                          for d, n in enumerate(x.shape)])]

    ends = dict(enumerate(reversed(names)))
    wants = [np.asarray(o) for o in whole(*args)]
    cts = [np.random.default_rng(seed).integers(0, 4, o.shape).astype(np.float32) for o in wants]
    own_args, own_cts = [part(a, mine) for a, mine in zip(args, placed)], [part(c, ends) for c in cts]
    loss = lambda h, cts: lambda *args: sum([(o * c).sum() for o, c in zip(h(*args), cts)])
    with mesh:
        got = f(*own_args)
        gradients = (lamina.grad if seed % 2 else lambda *a: lamina.jit(lamina.grad(*a)))(loss(f, own_cts), (0, 1))(*own_args)
    for o, want in zip(got, wants):
        np.testing.assert_allclose(o, part(want, ends), rtol=1e-5, atol=1e-3, err_msg=f"{seed} {text} {resources}")
    for s, want, mine in zip(gradients, lamina.jit(lamina.grad(loss(whole, cts), (0, 1)))(*args), placed):
        np.testing.assert_allclose(s, part(np.asarray(want), mine), rtol=1e-5, atol=1e-3, err_msg=f"{seed} {text} {resources}")
print("done")
"""
SHAPES = {(2, 4): [(4, 2), (2, 2, 2), (2, 4)], (2, 2): [(2, 2), (4,), (2, 2)], (4, 2): [(4, 2), (2, 4), (4, 2)],
          (4, 1): [(4,), (4, 1), (1, 4)]}  # mesh shapes: one axis is divided among the processes


@pytest.mark.parametrize("processes, devices", [*SHAPES] if WIDE else [(2, 4)])
def test_random_program_matches_one_process(processes, devices):
    laws, seeds = Path(__file__).parents[1] / "property", range(1, 1 + int(os.environ.get("LAMINA_LAWS", "1")))
    text = LAW.replace("LAWS", repr(str(laws))).replace("SEEDS", repr([*seeds]))
    assert run(text.replace("= SHAPES", f"= {SHAPES[processes, devices]}"), processes, devices) == ["done"] * processes


CALLS = COMMON + """
import lamina.numpy as jnp
from lamina import checkpoint, grad, jit, vmap
from lamina.sharding import NamedSharding, PartitionSpec as P

def product(a, b):  # per member, repeated along a missing axis, replicated
    return a * b, lax.psum(a * b, "i"), lax.psum(a.sum(), ("i", "j")), lax.axis_index("i")

n = 2 * processes
f = xmap(product, ({0: "i", 1: "j"}, ["j"]), ({0: "i", 1: "j"}, ["j", ...], {0: "i"}, {1: "i", 0: "k"}),
         axis_sizes={"k": 2}, axis_resources={"i": "x", "j": ("y",)})
double = xmap(lambda a: 2 * a, {0: "i", 1: "j"}, {0: "i", 1: "j"}, axis_resources={"i": "x", "j": "y"})
A = np.arange(n * 2 * 3, dtype=np.float32).reshape(n, 2, 3)
B = np.array([1, -2], np.float32)
AB = A * B[:, None]
wholes = AB, AB.sum(0), np.full(n, A.sum()), np.tile(np.arange(n), (2, 1))

def losses(h):
    return lambda a, b: sum([(v ** 2).sum() for v in h(a, b)[:3]])

expected = grad(losses(lambda a, b: (a * b[:, None], (a * b[:, None]).sum(0), a.sum() + 0 * a[:, 0, 0])), (0, 1))(A, B)
grids = [((processes, devices), 0), ((devices, processes), 1)]
for shape, at in grids if WIDE else grids[1:] if 2 % processes == 0 else grids[:1]:
    if n % shape[0] or 2 % shape[1]:
        continue
    mesh = make_mesh(shape, at, at)
    i, j = own(mesh, n, ("x",)), own(mesh, 2, ("y",))
    a, b = A[np.ix_(i, j)], B[j]
    wants = AB[np.ix_(i, j)], AB.sum(0)[j], wholes[2][i], wholes[3][:, i]
    with mesh:
        for _ in range(3):
            found = f(a, b)
        for got, want in zip(found, wants):
            same(got, want)
            assert got.is_fully_addressable and {s.device for s in got.addressable_shards} == {*lamina.local_devices()}
        with lamina.transfer_guard("disallow"):  # results have the sharding of the next call's arguments
            same(double(found[0]), 2 * wants[0])
        for gradient in (grad(losses(f), (0, 1)), jit(grad(checkpoint(losses(f)), (0, 1)))):
            found = gradient(a, b)
            same(found[0], np.asarray(expected[0])[np.ix_(i, j)])
            same(found[1], np.asarray(expected[1])[j])
        # With other work, in loops, branches and batches.
        for got, want in zip(jit(lambda a, b: f(a * 2, b)[:3])(a, b), wants):
            same(got, 2 * want)
        twice = jit(lambda a: lax.scan(lambda c, _: (f(c, b)[0] * 0.5, c.sum()), a, None, length=2)[0])
        same(twice(a), wants[0] * (b[:, None] / 4))
        same(jit(lambda p, a: lax.cond(p, lambda a: f(a, b)[0], lambda a: a, a))(True, a), wants[0])
        same(vmap(f, (0, None))(np.stack([a, 2 * a]), b)[1], np.stack([wants[1], 2 * wants[1]]))
        outer = xmap(lambda a: f(a, b)[1], {0: "outer"}, {0: "outer"})
        same(outer(np.stack([a, 2 * a])), np.stack([wants[1], 2 * wants[1]]))
        same(f.lower(a, b).compile()(a, b)[1], wants[1])
print("done")
"""


@pytest.mark.parametrize("processes, devices", [(2, 2), (3, 1), (2, 4), (3, 2)] if WIDE else [(2, 2)])
def test_xmap_calls_over_processes(processes, devices):
    assert run(CALLS.replace("WIDE", repr(WIDE)), processes, devices) == ["done"] * processes


FAULTS = COMMON + """
from lamina import jit
import lamina.numpy as jnp
from lamina.distributed import AgreementError, ProcessLostError
from lamina.sharding import NamedSharding, PartitionSpec as P

every = lamina.devices()
mesh = Mesh([every[k] for k in (0, 2, 1, 3)], "x")  # alternating processes
whole = np.arange(8, dtype=np.float32)
x = whole[own(mesh, 8, "x")]

def mapped(fun, out={0: "i"}, **more):
    return xmap(fun, {0: "i"}, out, axis_resources={"i": "x"}, **more)

total = mapped(lambda v: v + lax.psum(v, "i"))
with mesh:
    same(total(x), x + 28)
    # Arrays over all devices are global, and so are the results.
    w = lamina.make_array_from_callback((8,), NamedSharding(mesh, P("x")), lambda at: whole[at])
    y = total(total(w))
    assert y.shape == (8,) and y.sharding == w.sharding and not y.is_fully_addressable
    for shard in mapped(lambda v: v - 1)(y).addressable_shards:
        same(shard.data, (whole + 28 + 252 - 1)[shard.index])
    # Jitted functions, derivatives and batches of them behave as in one process with all devices.
    loss, flat = lambda h: lambda v: (h(v) ** 2).sum(), lambda v: v + v.sum()
    def ruled(h):
        f = lamina.custom_vjp(lambda v: h(v))
        f.defvjp(lambda v: (h(v), v), lambda v, ct: (h(ct) + 0 * h(v),))
        return f
    def pushed(h):
        f = lamina.custom_jvp(lambda v: h(v))
        f.defjvp(lambda p, t: (h(*p), h(*t)))
        return f
    def scanned(h):
        return lambda v: lax.scan(lambda c, _: (h(c) * 0.5, c.sum()), v, None, length=2)[0]
    ways = {
        "jit": lambda h: jit(lambda v: jit(h)(v * 2) + 1), "grad": lambda h: lamina.grad(loss(h)),
        "jitted grad": lambda h: jit(lamina.grad(loss(h))), "grad of jitted": lambda h: lamina.grad(jit(loss(h))),
        "second": lambda h: lamina.grad(lambda v: lamina.grad(loss(h))(v).sum() ** 2),
        "rule": lambda h: lamina.grad(loss(ruled(h))), "rule later": lambda h: jit(lamina.grad(loss(ruled(h)))),
        "linear": lambda h: lambda v: lamina.linearize(h, v)[1](v), "loop": lambda h: jit(scanned(h)),
        "checkpoint": lambda h: jit(lamina.grad(lamina.checkpoint(loss(h)))),
        "branch": lambda h: jit(lambda v: lax.cond(v[0] < 1, h, lambda v: v, v)),
        "batch": lambda h: lambda v: lamina.vmap(h)(jnp.stack([v, 2 * v])),
        "whole xmap": lambda h: lambda v: xmap(lambda a: h(a), {1: "o"}, {1: "o"})(jnp.stack([v, 2 * v], 1)),
        # Eager control flow and custom rules, which are compiled like under jit.
        "scan": scanned, "grad of scan": lambda h: lamina.grad(lambda v: scanned(h)(v).sum()),
        "batch of scan": lambda h: lambda v: lamina.vmap(scanned(h))(jnp.stack([v, 2 * v])),
        "steps": lambda h: lambda v: lax.fori_loop(0, 3, lambda k, v: h(v) / 8, v),
        "while": lambda h: lambda v: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, h(s[1]) / 8), (0, v))[1],
        "one branch": lambda h: lambda v: lax.switch(1, [lambda v: v, h, jnp.sin], v), "custom jvp": lambda h: pushed(h),
        "again": lambda h: lamina.grad(lamina.checkpoint(loss(h))), "grad of rule": lambda h: lamina.grad(loss(pushed(h))),
        "solved": lambda h: lambda v: lax.custom_linear_solve(lambda u: 2 * h(u), h(v), lambda mv, b: b / 2, symmetric=True),
        "placed": lambda h: jit(lambda v: h(v) * 2, **({} if h is flat else dict(in_shardings=w.sharding)))}
    for way in ways.values():
        got, want = way(total)(w), np.asarray(way(flat)(whole))
        assert got.shape == want.shape and not got.is_fully_addressable
        for shard in got.addressable_shards:
            same(shard.data, want[shard.index])
    kind = lamina.ShapeDtypeStruct(w.shape, w.dtype, sharding=w.sharding)
    for shard in jit(lambda v: total(v) * 2).lower(kind).compile()(w).addressable_shards:
        same(shard.data, 2 * (whole + 28)[shard.index])
    same(jit(total)(x), x + 28)  # local arguments still work
    expect_error(ValueError, "has 4 along dimension 0", xmap(lambda a, b: a + b, ({0: "i"}, {0: "i"}), {0: "i"},
                                                        axis_resources={"i": "x"}), w, lamina.device_put(x))
    # Errors are raised in all processes alike.
    expect_error(ValueError, "cannot be divided evenly over the 2 devices of this process", total, x[:3])
    expect_error(ValueError, "16 for all processes, so 8 for the 2 of 4 devices", mapped(lambda v: v, axis_sizes={"i": 16}), x)
    expect_error(NotImplementedError, "runs as several executables", jit(lambda x: total(x) + 1).lower, x)
    assert "float32[2] per device  dimension 0 split over 'x'" in str(total.lower(x).plan())
    give = mapped(lambda v: v + 1, donate_argnums=0)
    last = total(x)
    same(give(last), x + 29)
    assert last.is_deleted()
    seen = []
    total_seen = mapped(lambda v: (lamina.debug.callback(seen.append, v), lax.psum(v, "i"))[1], {})
    same(total_seen(x), 28)
    lamina.effects_barrier()
    assert sorted(map(float, seen)) == x.tolist(), seen
    with lamina.debug_nans(True):
        roots = mapped(lambda v: jnp.sqrt(v - 3))
        for f in (mapped(lambda v: jnp.sqrt(v - 3) + lax.psum(v, "i")), jit(lambda x: total(roots(x * 1)))):
            expect_error(FloatingPointError, "on device cpu:0, at index 0 of axis 'x' of 4, in process 0", f, x)
    # Two axes share a mesh axis, and both are in the derivative with respect to a common operand.
    def two(w, u, v):
        return lax.psum(jnp.sin(w * u), "i") + lax.psum(jnp.cos(w * v) * v, "j")

    def shared(resources):
        return xmap(two, ({}, {0: "i"}, {0: "j"}), {}, axis_resources=resources)

    places = own(mesh, 4, "x")
    wants = lamina.grad(shared({}), (0, 1, 2))(np.float32(2), whole, whole[:4])
    for got, want, at in zip(lamina.grad(shared({"i": "x", "j": "x"}), (0, 1, 2))(np.float32(2), x, whole[places]), wants,
                             ((), own(mesh, 8, "x"), places)):
        same(got, np.asarray(want)[at])
with Mesh([every[0], every[2]], "x"):  # one device of each process
    half = whole[4 * rank:4 * rank + 4]
    same(total(total(half)), half + 28 + 28 + 8 * 28)
    same(lamina.grad(lambda v: (total(v) ** 2).sum())(half), 2 * (half + 28) + 2 * (28 + 8 * 28))
for devices_of, message in (([every[0], every[2], every[3], every[1]], "do not form a block of Mesh('x': 2, 'y': 2)"),
                          ([d for d in every if d.process_index != rank], "has no devices of this process")):
    with Mesh(np.reshape(devices_of, (2, -1)), ("x", "y")):
        expect_error(ValueError, message, total, x)
with mesh:
    different = mapped((lambda v: lax.psum(v, "i")) if rank else (lambda v: lax.pmax(v, "i")), {})
    expect_error(AgreementError, "xmap of", different, x)
    same(total(x), x + 28)
    if rank:
        os._exit(0)
    expect_error(ProcessLostError, "process 1", lambda x: [np.asarray(total(x)) for _ in range(100)], x)
print("done")
"""


def test_global_arrays_and_errors():
    assert run(FAULTS) == ["done", ""]
