"""Processes that are about to launch different programs all raise, and stay synchronized afterwards."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

pytestmark = pytest.mark.slow

DEADLOCK = """
import threading, time
from lamina import lax, pmap
from lamina.distributed import AgreementError
firsts = [next(d for d in lamina.devices() if d.process_index == p) for p in range(processes)]

def deadlock():
    "Each process waits for the next one."
    pair = [firsts[p] for p in sorted((rank, (rank + 1) % processes))]
    begun = time.monotonic()
    try:
        pmap(lambda x: lax.psum(x, "i"), "i", devices=pair)(np.ones((1, 3), np.float32))
    except AgreementError as e:
        print(e)
        assert time.monotonic() - begun < 5 and "wait for one another" in str(e), e
    else:
        raise SystemExit("the deadlock was not found")
"""

# In each case one process, the odd one, makes other calls than the rest. The error of each call is printed; all must be equal.
DIVERGENCES = DEADLOCK + """
import os, signal
from lamina import jit
from lamina.distributed import CollectiveTimeoutError

x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)[mine]
def summed(name, op=lax.psum, scale=2.0, **how):
    return pmap(lambda x: op(x * scale, name), name, **how)
f, g = summed("i"), pmap(lambda x: x - lax.pmean(x, "i"), "i")
ring, back = [(k, (k + 1) % rows) for k in range(rows)], [(k, (k - 1) % rows) for k in range(rows)]
def permuted(order):
    return pmap(lambda x: lax.ppermute(x, "i", order), "i")
def grouped(groups):
    return pmap(lambda x: lax.psum(x, "i", axis_index_groups=groups), "i")
def looped(op):
    return pmap(lambda x: lax.scan(lambda c, _: (op(lax.psum(c, "i") * 0.01), None), x, None, length=3)[0], "i")
halves = [[*range(rows // 2)], [*range(rows // 2, rows)]]
evens = [[*range(0, rows, 2)], [*range(1, rows, 2)]]
big = jit(lambda x: f(x) * 2)

cases = dict(  # name: calls of the usual processes, calls of the odd one
    order=((f, g), (g, f)),
    op=((f,), (summed("i", lax.pmax),)),
    shape=((f,), (lambda x: f(x[:, :3]),)),
    dtype=((f,), (lambda x: f(x.astype(np.float16)),)),
    axis=((f,), (summed("j"),)),
    permutation=((permuted(ring),), (permuted(back if rows > 2 else ring[:1]),)),
    groups=((grouped(halves),), (grouped(evens if rows > 2 else None),)),
    devices=((f,), (summed("i", devices=lamina.devices()[::-1]),)),
    some=((f,), (lambda x: summed("i", devices=firsts)(x[:1]) if devices > 1 else g(x),)),
    skips=((f, g), (g,)),
    twice=((f, g), (f, f)),
    jit=((f,), (big,)),
    numbers=((f,), (summed("i", scale=3.0),)),
    inside=((looped(np.sin and lamina.numpy.sin),), (looped(lamina.numpy.cos),)),
)
want = np.asarray(f(x))

for number, (name, (usual, odd)) in enumerate(cases.items()):
    is_odd = rank == number % processes
    failed = None
    for call in odd if is_odd else usual:
        try:
            call(x)
        except AgreementError as e:
            failed = str(e)
            break
    assert failed is not None, name
    print(name, failed, sep="\\n")
    for _ in range(2):
        assert np.array_equal(f(x), want), name

# Captured data is each process's own.
mean = x.mean() + np.zeros(4, np.float32)
assert np.allclose(pmap(lambda x: lax.psum(x * 0 + mean, "i"), "i")(x)[0], (rows * 4 - 1) / 2 * rows)

# A late process is waited for, or named.
def late(kind, waits, comes):
    try:
        if rank == processes - 1:
            time.sleep(comes)
        with lamina.config.options["collective_timeout_seconds"](waits):
            f(x)
    except kind as e:
        print(str(e).splitlines()[0])
    else:
        raise SystemExit("no error about the late process")
    assert np.array_equal(f(x), want)
late(CollectiveTimeoutError, 0.5, 1.0)
if processes > 2:
    deadlock()
    assert np.array_equal(f(x), want)
    sys.exit()

# An interrupt while waiting for others.
if rank == 0:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        f(x)
    except KeyboardInterrupt:
        pass
else:
    time.sleep(0.7)
    try:
        f(x)
    except AgreementError as e:
        assert "interrupted" in str(e)
assert np.array_equal(f(x), want)

# A forked child holds no connection.
if rank == 0 and hasattr(os, "fork"):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns about threads
    child = os.fork()
    if not child:
        os._exit(0 if not before or len(os.listdir("/proc/self/fd")) < before else 1)
    assert os.waitpid(child, 0)[1] == 0
assert np.array_equal(f(x), want)
"""


@pytest.mark.parametrize("processes, devices", [(2, 2), (4, 1)])
def test_different_launches_raise_in_all_processes(processes, devices):
    outs = run(DIVERGENCES, processes, devices)
    assert len(set(outs)) == 1, "\n-----\n".join(outs)
    text = outs[0]
    for part in ("pmax over 'i' of float32[4]", "psum over 'i' of float32[3]", "psum over 'i' of float16[4]",
                  "psum over 'j' of float32[4]", "axis_index_groups=", "perm=", "jit of `<lambda>`", "in scan",
                  "mul c 3.0", "<string>:", f"process {processes - 1} did not come to this launch"):
        assert part in text, (part, text)


def test_deadlock_of_launches_is_found():
    """Main threads wait for threads that launch, next to a sleeping helper thread; one process is late."""
    outs = run(DEADLOCK + """
f = pmap(lambda x: lax.psum(x, "i"), "i")
threading.Thread(target=threading.Event().wait, daemon=True).start()
for late_rank in range(2):
    assert float(f(np.ones(devices, np.float32))[0]) == rows
    if rank == late_rank:
        time.sleep(1.2)
    t = threading.Thread(target=deadlock)
    t.start()
    t.join()
assert float(f(np.ones(devices, np.float32))[0]) == rows
""", 3, 1)
    assert len(set(outs)) == 1, "\n-----\n".join(outs)
    assert outs[0].count("wait for one another") == 2 and outs[0].count("psum over 'i' of float32[3]") == 6, outs[0]
