"""Maps over devices of several processes in any order, with any number of members per process, together with other work: the
results are those of one process with all members."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import ALIKE, run  # noqa: E402

pytestmark = pytest.mark.slow
WIDE = bool(os.environ.get("LAMINA_WIDE"))

WITH_OTHER_WORK = ALIKE + """
def meets(w, x):
    return lax.psum(x * w, "i") * (lax.axis_index("i") + 1) + lax.all_gather(x, "i")[::2].sum(0) - x

orders = [interleaved, interleaved[::-1], [d for d in interleaved if d != D[0] or devices == 1]]
orders += [[d for d in D if d.process_index or d == D[devices - 1]][::-1]] * (devices > 1)
for ds in orders:
    n = len(ds)
    draw = np.random.RandomState(n)
    every, c = (draw.randint(-3, 4, (n, 3)).astype(np.float32) for _ in range(2))
    own = [k for k, d in enumerate(ds) if d.process_index == rank]
    x, w = every[own], np.float32(2)

    def over(mapped, **options):
        f = mapped(meets, axis_name="i", in_axes=(None, 0), **options)
        return lambda x: f(w, x)

    f, g = over(pmap, devices=ds), over(vmap)
    y = f(x)
    same(y, np.asarray(g(every))[own])

    # With other work, which may depend on the local number of members.
    z = jit(lambda x: f(x * 2 + 1) + x)(x)
    same(z, (np.asarray(g(every * 2 + 1)) + every)[own])
    assert z.sharding == y.sharding or len(own) == 1, (z.sharding, y.sharding)
    found, most, again = jit(lambda x: (f(f(x) + x.sum()), x.max(), x))(x)
    sums = np.array([every[[k for k, d in enumerate(ds) if d.process_index == e.process_index]].sum() for e in ds])
    same(found, np.asarray(g(np.asarray(g(every)) + sums[:, None].astype(np.float32)))[own])
    same(most, x.max())
    same(again, x)
    if n > len({d.process_index for d in ds}):
        same(jit(lambda x, y: f(x) + y)(lamina.device_put(x, lamina.local_devices()[0]), y), 2 * np.asarray(y))

    if n == rows:  # with a map over default devices, in order of the processes
        both = jit(lambda x: (f(x) + 1, pmap(lambda x: x * 0 + lax.axis_index("i"), "i")(x)))(x)
        same(both[0], np.asarray(y) + 1)
        same(both[1][:, 0], np.arange(rows)[mine])

    # In loops and branches.
    state, halves = every, []
    for _ in range(3):
        state = np.asarray(g(state)) * 0.5
        halves.append(state[own, 0])
    last, rows_of = jit(lambda x: lax.scan(lambda c, i: (f(c) * 0.5, (f(c)[:, 0] * 0.5, i)), x, jnp.arange(3)))(x)
    same(last, state[own])
    same(rows_of[0], np.array(halves))
    same(rows_of[1], np.arange(3))
    same(jit(lambda x: lax.scan(lambda c, i: (f(c) * 0.5, i), x, jnp.arange(3), reverse=True))(x)[1], np.arange(3))
    same(jit(lambda x: lax.fori_loop(0, 3, lambda i, c: f(c) * 0.5, x))(x), state[own])
    same(jit(lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1]) * 0.5), (0, x)))(x)[1], state[own])
    pick = jit(lambda p, x: lax.cond(p, lambda x: f(x) * 2, lambda x: x, x) + 1)
    same(pick(True, x), (np.asarray(g(every)) * 2 + 1)[own])
    same(pick(False, x), x + 1)

    # grad and vmap, inside and outside.
    def loss(f, c):
        return lambda x: (f(x * 2) * c).sum()

    want = np.asarray(grad(loss(g, c))(every))[own]
    same(jit(grad(loss(f, c[own])))(x), want)
    same(grad(jit(loss(f, c[own])))(x), want)

    def make_gradient(mapped, xs, c, **options):
        y = mapped(meets, axis_name="i", in_axes=(None, 0), **options)
        return lambda w: grad(lambda w: (y(w * 3, xs) * c).sum())(w)

    same(jit(make_gradient(pmap, x, c[own], devices=ds))(w), make_gradient(vmap, every, c)(w))
    both = np.stack([every, every + 1])
    same(jit(vmap(lambda x: f(x) + 1))(both[:, own]), np.stack([g(both[0]), g(both[1])])[:, own] + 1)

    # Donation; callbacks outside the maps; errors, which all processes raise.
    given = lamina.device_put(x)
    found, passed, three = jit(lambda x: (f(x) + 1, x, 3.0), donate_argnums=0)(given)
    same(found, np.asarray(g(every))[own] + 1)
    same(passed, x)
    assert given.is_deleted() and float(three) == 3
    seen = []
    jit(lambda x: (lamina.debug.callback(seen.append, x.sum()), f(x) + 1)[1])(x)
    lamina.effects_barrier()
    assert [*map(float, seen)] == [x.sum()], seen

    for kind, setting, faulty in (
            (lamina.errors.CheckError, lamina.debug_nans(False), jit(lambda x, p: lax.scan(
                lambda c, i: ((lamina.debug.check(p | (i < 1), "iteration {i}", i=i), f(c))[1], None), x, jnp.arange(3))[0])),
            (FloatingPointError, lamina.debug_nans(True), jit(lambda x, p: f(jnp.log(jnp.where(p, 1.0, -1.0)) + x) + 1))):
        try:
            with setting:
                faulty(x, rank != processes - 1)
            raise SystemExit("no error was raised")
        except kind as e:
            assert f"in process {processes - 1}" in str(e), e
            assert kind is FloatingPointError and "`log` produced a NaN" in str(e) or "iteration 1; at " in str(e) and (
                "at index 1 of the scan" in str(e)), e
    same(f(x), np.asarray(y))

# Ordered callbacks outside the maps; compiler options for each executable.
own = [k for k, d in enumerate(ds) if d.process_index == rank]
seen = []
def numbered(x):
    return lamina.experimental.io_callback(lambda v: (seen.append(float(v)), np.float32(len(seen)))[1], np.float32(0), x.sum(),
                                           ordered=True)
def in_order(x):
    y = f(x + numbered(x) + numbered(x))
    return y + numbered(y)
got = jit(lambda x: lax.scan(lambda c, _: (in_order(c) * 0, c.sum()), in_order(x), None, length=2))(x)
assert len(seen) == 9 and seen[:2] == [x.sum()] * 2, seen
same(got[0], 0 * x)
assert seen[2] + 3 * x.size == float(got[1][0]) == seen[3], (seen, got)
settings = {"xla_no_such_setting": 1}
for call in (jit(lambda x: f(x) + 1, compiler_options=settings), jit(lambda x: f(f(x)), compiler_options=settings)):
    try:
        call(x)
        raise SystemExit("no error was raised")
    except lamina.errors.ExecutionError as e:
        assert "xla_no_such_setting" in str(e), e
same(jit(lambda x: f(x) + 1, compiler_options={"xla_embed_ir_in_executable": True})(x), np.asarray(f(x)) + 1)

# Several maps, over different devices.
if devices > 1:
    few = [d for d in D if d.process_index or d == D[0]]
    total = np.arange(rows, dtype=np.float32)
    own = [k for k, d in enumerate(few) if d.process_index == rank]
    f, g = (pmap(lambda x: x + lax.psum(x, "i"), "i", **o) for o in ({}, {"devices": few}))
    y, z = jit(lambda x: (f(x * 2), g(x[:len(own)])))(total[mine])
    same(y, (total * 2 + 2 * total.sum())[mine])
    given = [*total[:1], *np.concatenate([total[p * devices:(p + 1) * devices] for p in range(1, processes)])]
    same(z, total[mine][:len(own)] + np.sum(given))

    # A process without a device does not call it; a program of several executables cannot be lowered.
    alone = pmap(lambda x: x, devices=[d for d in D if d.process_index == 1])
    if rank == 0:
        expect_error(ValueError, "devices has none of this process", jit(lambda x: alone(x) + 1), total[mine])
    expect_error(ValueError, "the program runs as several executables and cannot be lowered", jit(lambda x: g(x) + 1).lower,
            total[mine][:len(own)])
pairs = [D[k:k + 2] for k in range(0, rows, 2)] if devices % 2 == 0 else []
if pairs:
    pairs.sort(key=lambda g: (g[0].id % devices, -g[0].process_index))
    own = [k for k, g in enumerate(pairs) if g[0].process_index == rank]
    every = np.random.RandomState(3).randint(-3, 4, (len(pairs), 2, 3)).astype(np.float32)

    def inner(x):
        return lax.psum(x, "j") + lax.psum(x, ("i", "j")) * lax.axis_index("i") + lax.axis_index("j") - x

    want = np.asarray(vmap(vmap(inner, axis_name="j"), axis_name="i")(every))[own]
    nested = pmap(pmap(inner, "j"), "i", devices=[d for g in pairs for d in g])
    same(nested(every[own]), want)
    same(jit(lambda x: nested(x) * 2)(every[own]), want * 2)
    with lamina.debug_nans(True):
        same(jit(lambda x: nested(x) * 2)(every[own]), want * 2)
print("done")
"""


@pytest.mark.parametrize("processes, devices", [(2, 2)] + [(2, 4), (3, 1), (3, 2)] * WIDE)
def test_maps_over_uneven_members_with_other_work(processes, devices):
    assert all(t.endswith("done") for t in run(WITH_OTHER_WORK, processes, devices))


# Maps that contain maps over devices: a member of the outer one uses `wide` devices of one process.
NESTS = ALIKE + """
draw = np.random.RandomState(1)

def inner(x, w):
    return (lax.psum(x * w, "j") + lax.psum(x, ("i", "j")) * lax.axis_index("i") + lax.ppermute(x, "j", [(0, 1)])
            + lax.all_gather(x, "i")[::2].sum(0) - x)

def outer(inside):
    def member(x, w):
        y = inside(x, w) * lax.axis_index("i") + x.sum() + lax.psum(x, "i")
        return lax.scan(lambda c, _: (inside(c, w) * 0.5, c[:, 0]), y, None, length=2)
    return member

def groups(wide):
    own = [[d for d in D if d.process_index == p] for p in range(processes)]
    return [g[k:k + wide] for g in own for k in range(0, devices, wide)]

def nested(mapped, ds=(), wide=2):
    one = dict(axis_name="j", in_axes=(0, None))
    inside = (lambda x, w: vmap(inner, **one)(x, w)) if mapped is vmap else (lambda x, w: pmap(inner, **one)(x, w))
    return mapped(outer(inside), axis_name="i", in_axes=(1, None), out_axes=(0, 1), **{"devices": ds} if ds else {})

for wide, chosen in ((2, groups(2)[1:]), (2, groups(2)[:0:-1]), (2, sorted(groups(2), key=lambda g: g[0].id % devices)),
                     (3, [d[::-1] for d in groups(4)]))[:LAST]:
    chosen = [g[:wide] for g in chosen]
    ds = [d for g in chosen for d in g]
    own = [k for k, g in enumerate(chosen) if g[0].process_index == rank]
    every = draw.randint(-3, 4, (wide, len(chosen), 3)).astype(np.float32)
    x, w = every[:, own], np.float32(2)
    f, g = nested(pmap, ds, wide), nested(vmap)
    want = g(every, w)
    want = np.asarray(want[0])[own], np.asarray(want[1])[:, own]
    got = f(x, w)
    same(got[0], want[0])
    same(got[1], want[1])
    again = jit(f)(lamina.device_put(x, lamina.local_devices()[0]), w)  # jitted alone, with an argument on one device
    same(again[0], want[0])
    assert {*again[0].sharding.device_set} == {d for k in own for d in chosen[k]}, again[0].sharding
    same(f(x, w)[0], want[0])
    with_other_work = jit(lambda x: (f(x * 2 + x.sum() * 0, w)[0] + x[0, 0, 0], x.max()))
    same(with_other_work(x)[0], np.asarray(g(every * 2, w)[0])[own] + x[0, 0, 0])
    iterated = lax.fori_loop(0, 2, lambda i, c: f(c, w)[0].swapaxes(0, 1) * 0.5, x)
    state = every
    for _ in range(2):
        state = np.asarray(g(state, w)[0]).swapaxes(0, 1) * 0.5
    np.testing.assert_allclose(iterated, state[:, own], rtol=1e-5)  # sums exceed 2**24 with many devices
    # Derivatives: a shared operand has one cotangent, the sum over all members.
    c = draw.randint(-2, 3, (len(chosen), wide, 3)).astype(np.float32)
    dx = [grad(lambda x, w, f=f, c=c: (f(x, w)[0] * c).sum(), (0, 1))(x, w) for f, c, x in ((f, c[own], x), (g, c, every))]
    same(dx[0][0], np.asarray(dx[1][0])[:, own])
    same(dx[0][1], dx[1][1])
    pair = np.stack([every, every + 1])
    same(vmap(lambda x: f(x, w)[0])(pair[:, :, own]), np.stack([g(p, w)[0] for p in pair])[:, own])

# The same for lower and compile; donation.
low = f.lower(x, w)
same(low.compile()(x, w)[0], want[0])
given = lamina.device_put(x)
same(pmap(outer(lambda x, w: pmap(inner, "j", in_axes=(0, None))(x, w)), "i", in_axes=(1, None), out_axes=(0, 1), devices=ds,
          donate_argnums=0)(given, w)[0], want[0])
assert given.is_deleted()

# Callbacks, and errors with line, device and index.
seen = []
def report(x):
    lamina.debug.callback(lambda n: seen.append(int(n)), lax.axis_index("i"))
    return pmap(lambda x: x + lax.psum(x, "j"), "j")(x)
pmap(report, "i", in_axes=1, devices=ds)(x)
lamina.effects_barrier()
assert sorted(set(seen)) == own and len(seen) in (len(own), len(ds) // len(chosen) * len(own)), (seen, own)
bad = pmap(pmap(lambda x: jnp.log(x) + lax.psum(x, ("i", "j")), "j"), "i", devices=ds)
odd = np.ones((len(own), wide, 3), np.float32)
if rank == 1:
    odd[-1, 1] = -1
last = max(k for k, g in enumerate(chosen) if g[0].process_index == 1)
for call in (bad, jit(lambda x: bad(x * 1) + 1)):
    try:
        with lamina.debug_nans(True):
            call(odd)
        raise SystemExit("no error was raised")
    except FloatingPointError as e:
        expected = (f"on device {chosen[last][1]}", f"index {last} of axis 'i' of {len(chosen)}, index 1 of axis 'j' of",
                    "`log`", "in process 1")
        assert all(t in str(e) for t in expected), e
same(f(x, w)[0], want[0])

# All devices of a member must be of one process.
mixed = [d for k in range(devices) for d in D[k::devices]][:2 * processes]
across = pmap(pmap(lambda x: x, "j"), "i", devices=mixed)
for call in (across, jit(lambda x: across(x) + 1)):
    try:
        call(np.ones((1, 2)))
        raise SystemExit("no error was raised")
    except ValueError as e:
        assert "they must belong to one process" in str(e), e
print("done")
"""


@pytest.mark.parametrize("processes", [2] + [3] * WIDE)
def test_nested_maps_over_processes(processes):
    text = NESTS.replace("LAST", "9" if WIDE else "2")
    assert all(t.endswith("done") for t in run(text, processes, 4))
