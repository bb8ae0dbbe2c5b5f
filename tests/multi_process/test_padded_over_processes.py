"""`padded` over several processes: any number of members in each, in several rounds; only members take part."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import ALIKE, run  # noqa: E402

pytestmark = pytest.mark.slow
WIDE = bool(os.environ.get("LAMINA_WIDE"))

ROWS = ALIKE + """
from lamina.parallel import padded

few = [d for d in D if d.process_index or d == D[0]]

def sums(n):
    return lambda w, x: lax.psum(x * w, "i") + lax.axis_index("i") * lax.pmax(x, "i") + lax.psum(1, "i") - lax.pmin(w * x, "i")

def moves(n):
    ring = [(k, (k + 2) % n) for k in range(n)]
    return lambda w, x: lax.ppermute(x * w, "i", ring) + lax.all_gather(x, "i")[n // 2] * w

def exchanges(n):
    def f(w, x):
        spread = jnp.arange(n, dtype=np.float32)[:, None] * x
        return lax.psum_scatter(spread * w, "i") + lax.all_to_all(spread, "i", 0, 0).sum(0)
    return f

def groups(n):
    halves = [[*range(0, n, 2)], [*range(1, n, 2)]]
    return lambda w, x: lax.psum(x, "i", axis_index_groups=halves) * w

def branches(n):
    return lambda w, x: lax.cond(lax.psum(x[0], "i") > 0, lambda x: lax.psum(x, "i") * w, lambda x: x, x) / (x + 9)

def numbers(n):
    return lambda w, x: x * w + lax.axis_index("i")

def alone(n):
    return lambda w, x: x * w - 1

# Number of members of each process; process 0 has the most, or the last one, or equal numbers, or fewer than devices.
cases = [(5, 3), (1, 7), (2 * devices, 2 * devices), (devices, 1), (4, 2 * devices)]
cases = [[*c[:1], *c[1:] * (processes - 1)] for c in cases]
bodies = {"sums": sums, "moves": moves, "exchanges": exchanges, "groups": groups, "branches": branches, "numbers": numbers}
for k, counts in enumerate(cases):
    for ds in [(None, interleaved, few)[(k + SHIFT) % 3]]:
        n = sum(counts)
        draw = np.random.RandomState(n)
        every, c = (draw.randint(-3, 4, (n, 3)).astype(np.float32) for _ in range(2))
        # Which members are those of this process: they are counted device by device, in the given order.
        order = D if ds is None else ds
        used = [[d for d in order if d.process_index == p][:counts[p]] for p in range(processes)]
        rounds = max(-(-m // len(u)) for m, u in zip(counts, used))
        owners = []
        for d in order:
            p = d.process_index
            if d in used[p]:
                owners += [p] * min(max(counts[p] - used[p].index(d) * rounds, 0), rounds)
        assert len(owners) == n
        own = [i for i, p in enumerate(owners) if p == rank]
        x, w = every[own], np.float32(2)
        for name in [[*bodies][(k + SHIFT) % 6]]:
            f = bodies[name](n)
            options = dict(axis_name="i", in_axes=(None, 0))
            g, m = vmap(f, **options), padded(f, devices=ds, **options)
            same(m(w, x), np.asarray(g(w, every))[own])
            for want, got in zip(grad(lambda w, x: (g(w, x) * c).sum(), (0, 1))(w, every),
                                 grad(lambda w, x: (m(w, x) * c[own]).sum(), (0, 1))(w, x)):
                if name == "branches":  # a quotient whose terms are added in another order
                    want = np.asarray(want) if want.ndim == 0 else np.asarray(want)[own]
                    assert np.allclose(got, want, rtol=1e-5, atol=1e-5), (got, want)
                else:
                    same(got, want if want.ndim == 0 else np.asarray(want)[own])
            if k < 2:
                same(jit(lambda x: m(w, x * 2) + 1)(x), np.asarray(g(w, every * 2))[own] + 1)
        m = padded(alone(n), in_axes=(None, 0), devices=ds)
        same(m(w, x), every[own] * 2 - 1)
        same(grad(lambda w: (m(w, x) * c[own]).sum())(w), (every * c).sum())
        same(padded(lambda x: lax.psum(x, "i"), "i", out_axes=None, devices=ds)(x), every.sum(0))

# Calls with numbers of members that one process has used before and another has not; one program per number of rounds.
compiled = []
import logging
handler = logging.Handler()
handler.emit = lambda record: compiled.append(record.getMessage())
logging.getLogger("lamina").addHandler(handler)

def doubled_once(x):
    return x * 2

with lamina.log_compiles():
    m = padded(doubled_once)
    for mine_, theirs in ((3, 1), (1, 3), (3, 3), (3, 1)):
        k = devices * (mine_ if rank == 0 else theirs)
        same(m(np.arange(k, dtype=np.float32)), np.arange(k) * 2)
found = [t for t in compiled if t.startswith("`doubled_once`") and ("compiled in" in t or "loaded from disk" in t)]
assert len(found) == 1, found
m = padded(lambda x: lax.psum(x, "i"), "i")
for mine_, theirs in ((3, 2), (3, 4), (2, 4), (3, 2)):
    k = mine_ if rank == 0 else theirs
    same(m(np.ones(k, np.float32)), np.full(k, mine_ + theirs * (processes - 1)))

expect_error(ValueError, "has size 0" if rank == 0 else "process at index 0 of", m, np.ones(0 if rank == 0 else 2, np.float32))
seen = []
padded(lambda x: (lamina.debug.callback(seen.append, x), x)[1])(np.arange(2.0 * devices + 1 + rank))
lamina.effects_barrier()
assert sorted(map(float, seen)) == [*range(2 * devices + 1 + rank)]
expect_error(ValueError, "slots empty", padded(lambda x: (lamina.debug.callback(seen.append, x), lax.psum(x, "i"))[1], "i"),
        np.arange(2.0 * devices + 1 + rank))
same(m(np.ones(3, np.float32)), np.full(3, 3.0 * processes))
print("done")
"""


# `shift` selects devices and functions for each case.
@pytest.mark.parametrize("shift", range(6 if WIDE else 1))
@pytest.mark.parametrize("processes, devices", [(2, 2)] + [(2, 4), (3, 1)] * WIDE)
def test_padded_over_processes_matches_vmap(processes, devices, shift):
    assert all(t.endswith("done") for t in run(ROWS.replace("SHIFT", str(shift)), processes, devices))
