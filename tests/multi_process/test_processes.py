"""Maps over several processes: each passes and gets its own members, with the results of one process with all devices."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

pytestmark = pytest.mark.slow

WIDE = bool(os.environ.get("LAMINA_WIDE"))
SIZES = [(n, devices) for n in (2, 3, 4) for devices in (1, 2, 4)]  # a wide run uses all of them


def parametrize_sizes(*sizes):
    return pytest.mark.parametrize("processes, devices", SIZES if WIDE else sizes)


# The expected result of a map is a vmap over the members of all processes.
MAPS = """
import time
import copy
from lamina import jit, lax, pmap, vmap

def same(got, want):
    got = np.asarray(got)
    assert got.shape == want.shape and np.allclose(got, want, rtol=1e-5, atol=1e-5), (got, want)

every = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4) + 1
x = every[mine]
total = every + every.sum(0)
f = pmap(lambda x: x + lax.psum(x, "i"), "i")
y = f(x)
same(y, total[mine])
assert y.shape == (devices, 4) and y.sharding.is_fully_addressable and len(y.addressable_shards) == devices
assert {s.device for s in y.addressable_shards} == {*lamina.local_devices()}
assert repr(y) == repr(lamina.device_put(np.asarray(y))), y

# Outside of the map, arrays are local to the process.
for _ in range(3):
    same(y + 1, total[mine] + 1)
    same(jit(lambda a: a * 2)(y), total[mine] * 2)
    same(jit(lambda a: lamina.numpy.sin(a).sum())(y), np.sin(total[mine]).sum())
same(y.sum(), total[mine].sum())
for i, row in enumerate(y):
    same(row, total[mine][i])
    same(y[i], total[mine][i])
same(lamina.device_put(y, lamina.local_devices()[-1]), total[mine])
other = copy.copy(y)
y.delete()
same(other, total[mine])
again = f(f(other))
same(again, (lambda z: z + z.sum(0))(total + total.sum(0))[mine])
for _ in range(20):
    again = f(again * 0.1)

# Functions of the axis.
i, n, m = pmap(lambda x: (lax.axis_index("i"), lax.psum(1, "i"), lax.axis_size("i")), "i")(x)
same(i, np.arange(rows)[mine])
same(n, np.full(devices, rows))
same(m, np.full(devices, rows))
ring = [(k, (k + 1) % rows) for k in range(rows)]
same(pmap(lambda x: lax.ppermute(x, "i", ring), "i")(x), np.roll(every, 1, 0)[mine])
same(pmap(lambda x: lax.all_gather(x, "i"), "i", out_axes=None)(x), every)
square = np.arange(rows * rows, dtype=np.float32).reshape(rows, rows)
same(pmap(lambda x: lax.all_to_all(x, "i", 0, 0), "i")(square[mine]), square.T[mine])
halves = [[*range(0, rows, 2)], [*range(1, rows, 2)]]
same(pmap(lambda x: lax.psum(x, "i", axis_index_groups=halves), "i")(every[mine, 0]),
     np.array([every[g, 0].sum() for g in halves])[np.arange(rows)[mine] % 2])
assert float(pmap(lambda w: lax.psum(w, "i"), "i", in_axes=None, out_axes=None, axis_size=rows)(np.float32(2))) == 2 * rows

# Given devices: all in another order, some, those of this process.
backwards = lamina.devices()[::-1]
r = pmap(lambda x: lax.axis_index("i"), "i", devices=backwards)(x)
same(r, np.array([k for k, d in enumerate(backwards) if d.process_index == rank]))
assert [s.device for s in r.addressable_shards] == [d for d in backwards if d.process_index == rank]
if (processes, devices) == (2, 2):  # two members of one process, one of the other
    uneven = pmap(lambda x: x + lax.psum(x, "i"), "i", devices=[lamina.devices()[k] for k in (2, 0, 1)])
    given = every[1:3] if rank == 0 else every[:1]
    same(uneven(given), given + every[:3].sum(0))
    same(jit(lambda x: uneven(x) * 2)(given), (given + every[:3].sum(0)) * 2)
firsts = [next(d for d in lamina.devices() if d.process_index == p) for p in range(processes)]
same(pmap(lambda x: lax.psum(x, "i"), "i", devices=firsts)(x[:1]), every[::devices].sum(0)[None])
same(pmap(lambda x: lax.psum(x, "i"), "i")(x[:1]), every[::devices].sum(0)[None])
same(pmap(lambda x: lax.psum(x, "i"), "i", devices=lamina.local_devices())(x)[0], x.sum(0))
if rank == 0:
    try:
        pmap(lambda x: x, devices=[d for d in lamina.devices() if d.process_index == 1])(x)
        raise SystemExit("expected an error without members")
    except ValueError as e:
        assert "devices has none of this process" in str(e)
try:
    pmap(lambda w: w, in_axes=None, axis_size=rows * processes + 1)(1.0)
    raise SystemExit("expected an error for an uneven size")
except ValueError as e:
    assert "cannot be divided evenly" in str(e)
try:
    pmap(lambda x: x, axis_size=rows * 2)(x)
    raise SystemExit("expected an error for axis_size")
except ValueError as e:
    assert f"expected {devices * 2}, as axis_size {rows * 2} (of all processes)" in str(e), e

# Donation.
step = pmap(lambda x: x * 2 + lax.psum(x, "i"), "i", donate_argnums=0)
v = f(x)
w = step(v)
assert v.is_deleted()
other = lamina.device_put(np.ones(3))
time.sleep(0.2)  # the next deletion frees the memory of `v`
other.delete()
same(w, (total * 2 + total.sum(0))[mine])

# Other kinds of calls.
same(jit(f)(x), total[mine])
same(jit(f)(jit(f)(x)), (total + total.sum(0))[mine])
same(f.lower(x).compile()(x), total[mine])
same(pmap(jit(lambda x: x + lax.psum(x, "i")), "i")(x), total[mine])
same(vmap(f, in_axes=2, out_axes=2)(np.stack([x, 2 * x], 2)), np.stack([total, 2 * total], 2)[mine])
same(pmap(vmap(lambda x: x * lax.psum(x, "i")), "i")(x), (every * every.sum(0))[mine])

with_other_work = jit(lambda x: lax.scan(lambda c, _: (f(c * 0.5) - c.mean(), None), x, None, length=2)[0])
def once(x):
    half = x * 0.5
    return half + half.sum(0) - np.concatenate([np.full((devices, 4), part.mean()) for part in np.split(x, processes)])
same(with_other_work(x), once(once(every))[mine])

with lamina.debug_nans(True):
    try:
        pmap(lambda x: lamina.numpy.log(x - lax.psum(x, "i")), "i")(x)
        raise SystemExit("expected an error for NaN")
    except FloatingPointError as e:
        assert f"on device {lamina.devices()[0]}, at index 0 of axis 'i' of {rows}, in process 0" in str(e), e
seen = []
y = pmap(lambda x: (lamina.debug.callback(seen.append, x), x * 2)[1], "i")(x)
lamina.effects_barrier()
assert len(seen) == devices
same(lamina.parallel.padded(lambda x: x + lax.psum(x, "i"), "i")(x), total[mine])

# Arrays over all devices and local arrays cannot be combined; replicated arrays of all devices can be used anywhere.
everywhere = tuple(lamina.devices())
from lamina_runtime._sharding.shardings import mapped_sharding
whole = lamina.device_put(every, mapped_sharding(everywhere, 2, ((0, rows),)))
count = jit(lambda a: a.sum())(whole)
assert float(count) == every.sum() and not whole.is_fully_addressable
expect_error(ValueError, "is split over devices of several processes", f, whole)
same(pmap(lambda x, c: x * c, in_axes=(0, None))(x, count), (every * every.sum())[mine])
y = f(x)
expect_error(ValueError, "make_array_from_process_local_data", jit(lambda a, b: a.sum() + b.sum()), whole, y)
if devices > 1:
    expect_error(ValueError, "make_array_from_process_local_data", lamina.device_put, f(x),
            mapped_sharding(everywhere, 2, ((1, 2),)))
float(jit(lambda a: a.sum())(whole))  # no process leaves before the others reach this line
print("done")
"""


@parametrize_sizes((2, 2), (3, 1))
def test_maps_over_processes(processes, devices):
    assert all(t.endswith("done") for t in run(MAPS, processes, devices))


DRAWN = """
import lamina.numpy as jnp

def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and np.allclose(got, want, rtol=1e-4, atol=1e-5), (got, want)

draw = np.random.RandomState(0)
every, w = draw.randn(rows, 3).astype(np.float32), draw.randn(3).astype(np.float32)
x = every[mine]
"""


DERIVATIVES = DRAWN + """
from lamina import checkpoint, config, grad, jvp, lax, linearize, pmap, vmap

c = draw.randn(rows, 3).astype(np.float32)

def with_psum(w, x):
    return lax.psum(jnp.sin(w * x).sum() * x, "i") * w + x

def local_only(w, x):
    return jnp.sin(w * x)

def replicated_psum(w, x):
    return lax.psum(w * w * x, "i")

def both(transform):
    \"\"\"Return the results of a transformed vmap over all members, and of a transformed pmap over processes.\"\"\"
    return transform(vmap, every, c), transform(pmap, x, c[mine])

# A shared operand: as argument, with and without a named axis, captured, for mapped and for replicated results.
for f, name, out in ((with_psum, "i", 0), (local_only, None, 0), (replicated_psum, "i", None)):
    def gradients(mapped, xs, c):
        y = mapped(f, axis_name=name, in_axes=(None, 0), out_axes=out)
        return grad(lambda w, xs: (y(w, xs) * (c if out == 0 else 2.0)).sum(), (0, 1))(w, xs)
    for once in (False, True):
        with config.replicated_counts_once(once):
            (gw, gx), (hw, hx) = both(gradients)
        same(hw, gw)
        same(hx, np.asarray(gx)[mine])
want, got = both(lambda mapped, xs, c: grad(lambda w: (mapped(lambda x: local_only(w, x))(xs) * c).sum())(w))
same(got, want)

def shared(mapped, f=with_psum):
    return mapped(f, axis_name="i", in_axes=(None, 0))

two = np.stack([w, 2 * w])
for transform in (
    lambda mapped, xs, c: grad(lambda w: grad(lambda w: (mapped(local_only, in_axes=(None, 0))(w, xs) * c).sum())(w).sum())(w),
    lambda mapped, xs, c: grad(lambda w: (checkpoint(shared(mapped))(w, xs) * c).sum())(w),
    lambda mapped, xs, c: grad(lambda w: (vmap(shared(mapped), in_axes=(0, None))(two * w, xs) * c).sum())(w),
):
    want, got = both(transform)
    same(got, want)
wants, gots = both(lambda mapped, xs, c: jvp(shared(mapped), (w, xs), (2 * w, xs + 1)))
for want, got in zip(wants, gots):
    same(got, np.asarray(want)[mine])
same(linearize(shared(pmap), w, x)[1](2 * w, x + 1), np.asarray(wants[1])[mine])
want, got = both(lambda mapped, xs, c: vmap(shared(mapped), in_axes=(0, None))(two, xs))
same(got, np.asarray(want)[:, mine])
print("done")
"""


@parametrize_sizes((2, 2))
def test_derivatives_of_maps_over_processes(processes, devices):
    assert all(t.endswith("done") for t in run(DERIVATIVES, processes, devices))


WITH_OTHER_WORK = DRAWN + """
from lamina import config, grad, jit, lax, pmap, vmap

def body(x):
    return lax.psum(jnp.sin(x).sum() * x, "i") * 0.1 + x * (lax.axis_index("i") + 1)

f, g = pmap(body, "i"), vmap(body, axis_name="i")

# Work before and after the map; unmapped values are local to each process, including scalars and means.
own = np.float32(rank + 1)
of_each = np.repeat(np.arange(1, processes + 1, dtype=np.float32), devices)[:, None]

y, mean = jit(lambda x, s: (f(f(x * 2 + 1) * s) + s, x.mean() * s))(x, own)
same(y, (np.asarray(g(g(every * 2 + 1) * of_each)) + of_each)[mine])
same(mean, x.mean() * own)
assert y.sharding == f(x).sharding
same(jit(lambda y: f(y) * 0.5)(y), np.asarray(f(y)) * 0.5)

# In loops and branches.
def thrice(x):
    return lax.scan(lambda c, _: (f(c) * 0.1, c.sum()), x, None, length=3)

state, sums = every, []
for _ in range(3):
    sums.append(state[mine].sum())
    state = np.asarray(g(state)) * 0.1
last, found = jit(thrice)(x)
same(last, state[mine])
same(found, np.array(sums))
same(jit(lambda p, x: lax.cond(p, f, lambda x: x, x))(True, x), np.asarray(g(every))[mine])

# Derivatives, also with respect to a shared operand.
def make_loss(mapped, xs):
    y = mapped(lambda w, x: jnp.sin(w * x) + lax.psum(w * x, "i"), axis_name="i", in_axes=(None, 0))
    return lambda w: (y(w * 2, xs) ** 2).sum()

want = grad(make_loss(vmap, every))(w)
same(jit(grad(make_loss(pmap, x)))(w), want)
same(grad(jit(make_loss(pmap, x)))(w), want)

# Given devices, with the processes in reverse order.
named = [d for p in reversed(range(processes)) for d in lamina.devices() if d.process_index == p]
reversed_processes = np.concatenate([every[p * devices:(p + 1) * devices] for p in reversed(range(processes))])
at = slice((processes - 1 - rank) * devices, (processes - rank) * devices)
h = pmap(body, "i", devices=named)
same(h(x), np.asarray(g(reversed_processes))[at])
same(jit(lambda x: h(x) * 2)(x), np.asarray(g(reversed_processes))[at] * 2)

if devices == 4:
    # Maps within maps: the outer one spans the processes.
    pairs = draw.randn(2 * processes, 2, 3).astype(np.float32)
    its = slice(2 * rank, 2 * rank + 2)

    def inner(x):
        return lax.psum(x, "j") + lax.psum(x, ("i", "j")) * lax.axis_index("i") + lax.axis_index("j")

    want = np.asarray(vmap(vmap(inner, axis_name="j"), axis_name="i")(pairs))[its]
    same(pmap(pmap(inner, "j"), "i")(pairs[its]), want)
    same(jit(lambda z: pmap(pmap(inner, "j"), "i")(z) * 2)(pairs[its]), want * 2)

    # Three members per process on four devices each, with a map over all devices.
    some = np.concatenate([every[k * devices:k * devices + 3] for k in range(processes)])

    def gathers(x):
        return lax.all_gather(x, "i").sum(0) + lax.psum_scatter(jnp.outer(jnp.ones(3 * processes), x), "i")

    want = np.asarray(vmap(gathers, axis_name="i")(some))[3 * rank:3 * rank + 3]
    both = jit(lambda a, b: (pmap(gathers, "i")(a) * 2, f(b)))(x[:3], x)
    same(both[0], want * 2)
    same(both[1], np.asarray(g(every))[mine])

# Callbacks outside a map: each process calls once; an exception of one is raised in all.
seen = []
same(jit(lambda x: (lamina.debug.callback(lambda v: seen.append(v), x), f(x) * 2)[1])(x), np.asarray(f(x)) * 2)
assert len(seen) == 1 and np.array_equal(seen[0], x)
tenfold = lambda x: lamina.pure_callback(lambda v: v * 10, x, x)
same(jit(lambda x: f(tenfold(x)) + 1)(x), np.asarray(f(x * 10)) + 1)
seen.clear()
note = lambda i: seen.append(int(i))
jit(lambda x: lax.scan(lambda c, i: ((lamina.debug.callback(note, i), f(c))[1], None), x, jnp.arange(3))[0])(x)
lamina.effects_barrier()
assert seen == [0, 1, 2], seen
try:
    jit(lambda x, last: (lamina.debug.check(~last, "{}", 7), f(x) * 2)[1])(x, rank == processes - 1)
    raise SystemExit("no error was raised")
except lamina.errors.CheckError as e:
    assert "debug.check: 7; at " in str(e) and f"in process {processes - 1}" in str(e), e

# A callback with effects and results is called once; all devices of its process have exactly its result.
from lamina.experimental import io_callback

def counted():
    seen.append(1)
    return np.int32(len(seen))

count = lambda: io_callback(counted, lamina.ShapeDtypeStruct((), np.int32)).astype(jnp.float32)
seen.clear()
got, given = jit(lambda x: (f(io_callback(lambda v: v + rank, x, x)) + 1, count()))(x)
same(got, np.asarray(f(x + rank)) + 1)
assert len(seen) == 1 and given == 1
values = [np.array([-0.0, np.nan, -1.5, np.inf], d) for d in ("float16", "float32", jnp.bfloat16, "complex64")]
values += [np.array([0, 1, 0, 1], d) for d in ("bool", "int8", "uint16", "int32")]
types = [lamina.ShapeDtypeStruct(v.shape, v.dtype) for v in values]
for v, w in zip(values, jit(lambda x: (io_callback(lambda: values, types), f(x) + 1)[0])(x)):
    assert np.asarray(w).tobytes() == v.tobytes(), (v, w)
seen.clear()
_, numbers = jit(lambda x: lax.scan(lambda c, _: (lambda k: (f(c) + k, k))(count()), x, None, length=3))(x)
assert numbers.tolist() == [1, 2, 3] and len(seen) == 3
seen.clear()
own_iterations = jit(lambda n, x: f(lax.fori_loop(0, n, lambda i, c: c + count(), x)) + 1)
some = jit(lambda p, x: f(lax.cond(p, lambda x: x + count(), lambda x: x, x)) + 1)
same(own_iterations(rank + 1, x), np.asarray(f(x + sum(range(rank + 2)))) + 1)
assert len(seen) == rank + 1
seen.clear()
same(some(rank == 0, x), np.asarray(f(x + (rank == 0))) + 1)
assert len(seen) == (rank == 0)

sharding = f(x).sharding
same(jit(lambda x: lax.with_sharding_constraint(f(x) * 2, sharding))(x), np.asarray(f(x)) * 2)
from lamina_runtime._sharding.shardings import mapped_sharding
try:
    jit(lambda x: lax.with_sharding_constraint(f(x), mapped_sharding(tuple(lamina.devices()), 2, ((0, rows),))))(x)
    raise SystemExit("expected an error for devices of others")
except ValueError as e:
    assert "in this process the maps inside run on" in str(e), e

# The example of the pmap documentation: two processes of four devices.
print(pmap(lambda x: x + lax.psum(x, axis_name="i"), axis_name="i")(np.arange(devices) + devices * rank))
print("done")
"""


@parametrize_sizes((2, 4))
def test_maps_with_other_work_in_one_program(processes, devices):
    texts = run(WITH_OTHER_WORK, processes, devices)
    assert all(t.endswith("done") for t in texts)
    if (processes, devices) == (2, 4):
        assert texts[0].endswith("[28 29 30 31]\ndone") and texts[1].endswith("[32 33 34 35]\ndone"), texts


DRAWN = """
from lamina import config, grad, jit, pmap, vmap
sys.path.insert(0, LAWS)
from draw_members import member_function

for seed in SEEDS:
    f = member_function(seed, rows)
    draw = np.random.default_rng(seed)
    w, every = np.float32(draw.integers(-2, 3, 3)), np.float32(draw.integers(-2, 3, (rows, 3)))
    c = np.float32(draw.integers(-1, 2, (rows, 3)))

    def both(mapped, xs, c):
        y = mapped(f, axis_name="i", in_axes=(None, 0))
        with_other_work = jit(lambda w, x: y(w, x + 1) * 2 + x)
        return y(w, xs), with_other_work(w, xs), *grad(lambda w, x: (y(w, x) * c).sum(), (0, 1))(w, xs)

    try:
        wants = both(vmap, every, c)
    except lamina.errors.UnboundAxisError as e:  # vmap skips functions without a mapped argument
        assert "so the call and its rule are outside of it" in str(e), e
        continue
    gots = both(pmap, every[mine], c[mine])
    for k, (want, got) in enumerate(zip(wants, gots)):
        want = np.asarray(want) if k == 2 else np.asarray(want)[mine]
        if k < 2:
            assert np.array_equal(np.asarray(got), want), (seed, k, got, want)
        else:  # members with equal maxima share the derivative
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6, atol=1e-5, err_msg=f"seed {seed}")
print("done")
"""


@parametrize_sizes((2, 2))
def test_random_functions_over_processes(processes, devices):
    laws, seeds = Path(__file__).parents[1] / "property", range(int(os.environ.get("LAMINA_LAWS", "2")))
    text = DRAWN.replace("LAWS", repr(str(laws))).replace("SEEDS", repr([*seeds]))
    assert all(t.endswith("done") for t in run(text, processes, devices))


PARTS = """
from lamina import jit, lax, pmap
from lamina.experimental import multihost_utils as hosts

class Mesh:
    devices, axis_names = np.array(lamina.devices()).reshape(processes, devices), ("p", "d")

def same(got, want):
    got = np.asarray(got)
    assert got.shape == want.shape and np.array_equal(got, want), (got, want)

every = np.arange(rows * 2 * devices, dtype=np.float32).reshape(rows, 2 * devices)
whole = hosts.host_local_array_to_global_array(every[mine], Mesh, (("p", "d"),))
assert whole.shape == every.shape and not whole.is_fully_addressable and float(jit(lambda a: a.sum())(whole)) == every.sum()
part = hosts.global_array_to_host_local_array(whole)
same(part, every[mine])
total = pmap(lambda x: x + lax.psum(x, "i"), "i")(part)
again = lamina.make_array_from_process_local_data(whole.sharding, total)
same(hosts.process_allgather(again, tiled=True), every + every.sum(0))
same(hosts.process_allgather(total, tiled=True), every + every.sum(0))
same(hosts.process_allgather(np.float32(rank)), np.arange(processes, dtype=np.float32))
grid = hosts.host_local_array_to_global_array(every[mine], Mesh, ("p", "d"))
same(hosts.global_array_to_host_local_array(grid, Mesh, ("p", "d")), every[mine])
for made in (grid, lamina.make_array_from_process_local_data(grid.sharding, every, every.shape),
             lamina.make_array_from_callback(every.shape, grid.sharding, lambda index: every[index]),
             lamina.make_array_from_single_device_arrays(every.shape, whole.sharding,
                                                         [s.data for s in whole.addressable_shards][::-1])):
    same(hosts.process_allgather(made, tiled=True), every)
same(hosts.host_local_array_to_global_array(every, Mesh, None), every)

tree = {"half": np.array([1.5, -0.0, np.nan], np.float16), "n": rank + 7, "yes": rank == 1, "none": np.zeros((0, 3))}
found = hosts.broadcast_one_to_all({**tree, "half": tree["half"] * (1 - rank)})
assert found["half"].tobytes() == tree["half"].tobytes() and found["n"] == 7 and not found["yes"]
assert found["none"].shape == (0, 3)
assert hosts.broadcast_one_to_all(rank, is_source=rank == 1) == 1
hosts.assert_equal({"a": every})
hosts.sync_global_devices("here")

others, ERRORS = [*range(1, processes)], (AssertionError, TypeError, ValueError)
expect_error(ERRORS, f"those of processes {others} differ", hosts.broadcast_one_to_all, np.zeros(2 + rank))
expect_error(ERRORS, f"is_source is true in {processes}", hosts.broadcast_one_to_all, 1.0, True)
expect_error(ERRORS, f"those of processes {others} differ", hosts.process_allgather, np.zeros(1 + rank))
expect_error(ERRORS, "pass tiled=True", hosts.process_allgather, whole)
expect_error(ERRORS, f"ranks: processes {others} differ from process 0", hosts.assert_equal, rank, "ranks")
expect_error(ERRORS, "do not use the name of process 0", hosts.sync_global_devices, f"at {rank}")
expect_error(ERRORS, "dimension 0 of local_data", lamina.make_array_from_process_local_data, whole.sharding, every[:1],
             (rows + 1, 2))
expect_error(ERRORS, "must return an array of shape", lamina.make_array_from_callback, every.shape, whole.sharding,
        lambda i: every[i][:0])
expect_error(ERRORS, "must have the shape", lamina.make_array_from_single_device_arrays, (2 * rows, 2 * devices),
             whole.sharding, [s.data for s in whole.addressable_shards])
expect_error(ERRORS, "names the axis 'q', which Mesh", hosts.host_local_array_to_global_array, every[mine], Mesh, ("q",))

# Interleaved shards; then a mesh in which each process has only some rows and columns of the block.
Mesh.devices, Mesh.axis_names = Mesh.devices.T.copy(), ("d", "p")
interleaved = hosts.host_local_array_to_global_array(every[rank::processes], Mesh, (("d", "p"),))
same(hosts.process_allgather(interleaved, tiled=True), every)
same(hosts.global_array_to_host_local_array(interleaved), every[rank::processes])
y = lamina.make_array_from_process_local_data(interleaved.sharding, jit(lambda x: x * 2)(every), every.shape)
same(hosts.process_allgather(y, tiled=True), every * 2)
for k, row in enumerate(Mesh.devices):
    row[:] = np.roll(row, k)
columns = np.arange(processes * 3)
square = np.outer(np.arange(2 * devices) + 1, columns + 1).astype(np.float32)
corners = lamina.sharding.NamedSharding(lamina.sharding.Mesh(Mesh.devices, ("d", "p")), lamina.sharding.PartitionSpec("d", "p"))
own = np.isin(columns // 3, [(rank + k) % processes for k in range(devices)])
for x in (lamina.make_array_from_process_local_data(corners, square[:, own]),
          lamina.make_array_from_process_local_data(corners, lamina.device_put(square), square.shape)):
    same(hosts.process_allgather(x, tiled=True), square)
if devices > 1:
    expect_error(ERRORS, "form a block of the array", hosts.global_array_to_host_local_array, x)
whole.delete()
assert part.is_deleted()  # shares memory with the whole array
hosts.sync_global_devices("end")
print("done")
"""


@parametrize_sizes((2, 2))
def test_local_and_global_arrays(processes, devices):
    assert all(t.endswith("done") for t in run(PARTS, processes, devices))


def test_local_and_global_arrays_in_one_process():
    from lamina.experimental import multihost_utils as hosts
    import lamina
    import numpy as np
    sharding = lamina.pmap(lambda x: x)(np.zeros((8, 2), np.float32)).sharding
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    for made in (lamina.make_array_from_process_local_data(sharding, x),
                 lamina.make_array_from_callback((8, 2), sharding, lambda i: x[i]),
                 lamina.make_array_from_single_device_arrays((8, 2), sharding, list(lamina.pmap(lambda x: x)(x)[:, None]))):
        assert made.sharding == sharding and np.array_equal(np.asarray(made), x)
        assert hosts.global_array_to_host_local_array(made) is made
    assert hosts.process_allgather(x).shape == (1, 8, 2) and hosts.process_allgather(x, tiled=True).shape == (8, 2)
    assert np.array_equal(hosts.broadcast_one_to_all(x), x)
    hosts.assert_equal(x)
    hosts.sync_global_devices("alone")
