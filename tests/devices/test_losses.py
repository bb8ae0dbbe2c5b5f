"""Processes that die, are silent, or lose their coordinator: who is left is told, works on alone, and meets again."""
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from lamina_runtime import starting

EVERY = os.environ.get("LAMINA_LOSSES") == "every"  # all kinds of death, of any process, and ten rounds


def free():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{s.getsockname()[1]}"


START = """
import os, signal, sys, threading, time
import numpy as np
import lamina
from lamina import lax
from lamina.distributed import ProcessLostError, initialize, shutdown
rank, devices = int(sys.argv[1]), int(sys.argv[2])
lamina.config.update("num_cpu_devices", devices)
TIMEOUT = 3
f = lamina.pmap(lambda x: x + lax.psum(x, "i"), axis_name="i")
g = lamina.jit(lambda x: x * 2 + 1)
def join(address, n, rank):
    initialize(address, n, rank, initialization_timeout=60, heartbeat_timeout_seconds=TIMEOUT)
    return np.arange(devices, dtype=np.float32) + rank * devices
def right(n, base):
    assert np.array_equal(f(base), base + sum(range(n * devices)))
def alone(base):
    assert float(g(np.float32(3))) == 7 and float(lamina.numpy.arange(5.).sum()) == 10
    own = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i", devices=lamina.local_devices())
    assert np.array_equal(own(base), np.full(devices, base.sum()))
def lost(act, *who):
    begun = time.monotonic()
    try:
        act()
    except ProcessLostError as e:
        assert time.monotonic() - begun < TIMEOUT + 5
        assert e.process_indices == who and isinstance(e, RuntimeError) and str(who) in str(e), (e.process_indices, who)
        return e
    raise AssertionError("no ProcessLostError")
def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def start(text, rank, devices, *more):
    env = {**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "2", "LAMINA_TOKEN": "of these tests"}
    return subprocess.Popen([sys.executable, "-c", START + text, str(rank), str(devices), *map(str, more)], env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def ends(every, codes, limit=120):
    """Wait for processes; AssertionError where one ends otherwise than with its code, with what all said."""
    try:
        texts = [p.communicate(timeout=limit)[0] for p in every]
    finally:
        for p in every:
            p.kill()
    found = [p.returncode for p in every]
    assert found == codes, "\n".join([f"{found}, not {codes}", *(f"--- {i}\n{t}" for i, t in enumerate(texts))])
    return texts


SHRINK = """
def first(base): return f(base)
unmet = first
def wait(base): return np.asarray(f(base))
def queue(base): return lamina.block_until_ready([f(base) for _ in range(8)])
def chain(base): print(g(f(f(base)))[0])
def between(base):
    time.sleep(0.3)
    return f(base)
def item(base):
    y = f(base)
    return y[0].item() + float(y[devices - 1])
def loop(base):
    while True:
        base = f(base)
def compiling(base):
    def heavy(x):
        for _ in range(6):
            x = lax.sort(lax.sin(lax.sort(lax.cos(x))))
        return lax.psum(x, "i")
    return np.asarray(lamina.pmap(heavy, axis_name="i")(np.ones((devices, 64), np.float32)))
addresses = sys.argv[4].split(",")
me, n = rank, int(sys.argv[3])
for turn, (address, case) in enumerate(zip(addresses, sys.argv[5:])):
    name, victim = case.split(":")
    victim = int(victim)
    base = join(address, n, me)
    if name == "first":
        lamina.devices()
    elif name != "unmet":
        right(n, base)
    if me == victim:
        time.sleep(0.15)
        if name == "loop":
            threading.Timer(0.1, die).start()
            loop(base)
        die()
    lost(lambda: globals()[name](base), victim)
    lost(lambda: f(base), victim)
    if name != "unmet":  # before the devices of all are known there are none
        alone(base)
        lamina.effects_barrier()
    shutdown()
    me, n = me - (me > victim), n - 1
if n > 1:
    right(n, join(addresses[-1], n, me))
sys.exit(20 + rank)
"""

CASES = ("unmet", "first", "wait", "queue", "chain", "between", "item", "loop", "compiling")


@pytest.mark.parametrize("n, devices, cases", [
    (4, 2, ["first:0", "queue:1", "wait:1"]), pytest.param(4, 1, ["unmet:0", "loop:2", "compiling:1"], marks=pytest.mark.slow)])
def test_who_is_left_raises_works_alone_and_meets_again(n, devices, cases):
    """Of four processes one dies, then of the three that meet again another, ...; functions made at first go on."""
    shrunk(n, devices, cases)


def shrunk(n, devices, cases):
    codes, alive = [0] * n, list(range(n))
    for case in cases:
        codes[alive.pop(int(case.split(":")[1]))] = -signal.SIGKILL
    for r in alive:
        codes[r] = 20 + r
    addresses = ",".join(free() for _ in range(len(cases) + 1))
    ends([start(SHRINK, r, devices, n, addresses, *cases) for r in range(n)], codes)


@pytest.mark.skipif(not EVERY, reason="minutes: LAMINA_LOSSES=every")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n, devices", [(n, d) for n in (2, 3, 4) for d in (1, 2)])
def test_every_death(n, devices, case):
    for victim in range(n):
        shrunk(n, devices, [f"{case}:{victim}"])


SILENT = """
from lamina_runtime import distributed
base = join(sys.argv[3], 3, rank)
right(3, base)
print("ready", flush=True)
if rank == 1:
    time.sleep(0.5)  # stopped meanwhile
error = lost(lambda: np.asarray(f(base)), 1)
assert ("no sign of life" in str(error)) == (rank == 1), error
alone(base)
if rank != 1:
    shutdown()
    base = join(sys.argv[4], 2, rank // 2)
    right(2, base)
if rank == 0:  # the other leaves in order
    here = distributed._session.presence
    with here.changed:
        assert here.changed.wait_for(lambda: here.left, 60)
    assert "has left" in str(lost(lambda: f(base), 1))
sys.exit(20 + rank)
"""


@pytest.mark.slow
def test_silence():
    """One is stopped for longer than the timeout. When it wakes it is told that it is lost, and the others have met again."""
    a, b = free(), free()
    every = [start(SILENT, r, 2, a, b) for r in range(3)]
    try:
        for p in every:
            while "ready" not in (line := p.stdout.readline()):
                assert line, p.communicate()
        every[1].send_signal(signal.SIGSTOP)
        ends([every[0], every[2]], [20, 22])
        every[1].send_signal(signal.SIGCONT)
        ends([every[1]], [21])
    finally:
        for p in every:
            p.kill()
            p.wait()


BEREFT = """
from lamina_runtime import distributed
base = join(sys.argv[3], 3, rank)
right(3, base)
print("ready", flush=True)
here = distributed._session.presence
with here.changed:
    assert here.changed.wait_for(lambda: here.alone, 60)
right(3, base)  # what is connected stays so
if rank == 1:
    time.sleep(1.5)
    die()
lost(lambda: np.asarray(f(base)), 1)
alone(base)
shutdown()
right(2, join(sys.argv[4], 2, rank // 2))
sys.exit(20 + rank)
"""


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2] if EVERY else [2])
def test_a_death_after_the_coordinators(devices):
    """Nobody tells; the end of the connections does."""
    address, child = starting.start("127.0.0.1:0", b"of these tests", 60, detach=False)
    with child:
        every = [start(BEREFT, r, devices, address, free_one) for free_one in [free()] for r in range(3)]
        try:
            for p in every:
                while "ready" not in (line := p.stdout.readline()):
                    assert line, p.communicate()
        finally:
            child.kill()
        ends(every, [20, -signal.SIGKILL, 22])


ROUNDS = """
import gc
address, rounds = sys.argv[3].split(","), int(sys.argv[4])
def held():
    gc.collect()
    pages = int(open("/proc/self/statm").read().split()[1])
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), pages * 4096 >> 10
if rank == 2:  # comes for one round, number sys.argv[5]
    base = join(address[int(sys.argv[5])], 3, 2)
    right(3, base)
    die()
for turn in range(rounds):
    base = join(address[turn], 3, rank)
    right(3, base)
    lost(lambda: [np.asarray(f(base)) for _ in range(3)], 2)
    shutdown()
    until = time.monotonic() + 5  # threads of C++ end some time after they were let go
    while turn > 1 and held()[0] > before[0] and time.monotonic() < until:
        time.sleep(0.05)
    now = held()
    print(turn, now, flush=True)
    if turn <= 1:
        before = now
assert now[0] <= before[0] and now[1] <= before[1], (before, now)
right(2, join(address[-1], 2, rank))
sys.exit(20 + rank)
"""


@pytest.mark.slow
def test_rounds_with_a_new_process_each():
    """A new process joins the two that are left, and dies: their threads and descriptors go with each round."""
    rounds = 10 if EVERY else 3
    addresses = ",".join(free() for _ in range(rounds + 1))
    stay = [start(ROUNDS, r, 2, addresses, rounds) for r in range(2)]
    come = [start(ROUNDS, 2, 2, addresses, rounds, turn) for turn in range(rounds)]
    begun = time.monotonic()
    texts = ends([*stay, *come], [20, 21] + [-signal.SIGKILL] * rounds)
    print(texts[0], f"{time.monotonic() - begun:.1f} s")


STUCK = """
from lamina_runtime import distributed, losses, patience
lamina.config.update("agreement", "off")  # else the first to wait is told before it launches
base = join(sys.argv[3], 2, rank)
right(2, base)
losses._cut = lambda *more: None  # as where the connections are not ours
session = distributed._session
session.launches.patience = patience.install(session._watch)
right(2, base)
x = g(base)
if rank == 1:
    time.sleep(0.5)
    die()
y = f(base)

assert not y.is_ready()
lost(lambda: np.asarray(g(y)), 1)
lost(lambda: y.block_until_ready(), 1)
lost(lambda: lamina.block_until_ready([x, y]), 1)
lost(lambda: f(base), 1)
assert np.array_equal(x, base * 2 + 1)
sys.exit(20)
"""


@pytest.mark.slow
def test_what_cannot_be_freed_is_told_all_the_same():
    address = free()
    ends([start(STUCK, r, 2, address) for r in range(2)], [20, -signal.SIGKILL], 60)
