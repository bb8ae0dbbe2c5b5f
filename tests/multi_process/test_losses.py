"""Processes that die, are silent, or lose their coordinator: who is left is told, works on alone, and meets again."""
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lamina_runtime._distributed import spawn_coordinator

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import free  # noqa: E402

EVERY = os.environ.get("LAMINA_LOSSES") == "every"  # each kind of loss, of any of 2, 3 and 4 processes, and ten rounds
SIZES = [(n, devices) for n in (2, 3, 4) for devices in (1, 2)]


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
    y = np.asarray(f(base))  # np.array_equal would say False where reading raises
    assert np.array_equal(y, base + sum(range(n * devices)))
def alone(base):
    assert float(g(np.float32(3))) == 7 and float(lamina.numpy.arange(5.).sum()) == 10
    own = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i", devices=lamina.local_devices())
    assert np.array_equal(own(base), np.full(devices, base.sum()))
def lost(act, *who):
    begun = time.monotonic()
    try:
        act()
    except ProcessLostError as e:
        now = time.monotonic()
        assert now - begun < TIMEOUT + 5
        say("told", begun, now)
        assert e.process_indices == who and isinstance(e, RuntimeError) and str(who) in str(e), (e.process_indices, who)
        return e
    raise AssertionError("no ProcessLostError")
def say(*words):
    os.write(1, (" ".join(map(str, words)) + ";\\n").encode())  # in one piece
def die():
    say("dies", time.monotonic())
    os.kill(os.getpid(), signal.SIGKILL)
"""


def start(text, rank, devices, *more):
    # NCCL lets processes of different hosts alone share a GPU: so that the tests run on a machine with one.
    env = {**os.environ, "NCCL_HOSTID": f"member {rank}", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_FLAGS": "",
           "LAMINA_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "2", "LAMINA_TOKEN": "of these tests"}
    command = [sys.executable, "-X", "faulthandler", "-c", START + text, *map(str, (rank, devices, *more))]
    return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def ends(every, codes, limit=120):
    """Wait for processes; AssertionError where one ends otherwise than with its code, with what all said."""
    until, texts, late = time.monotonic() + limit, [], []
    try:
        for i, p in enumerate(every):
            try:
                texts.append(p.communicate(timeout=max(until - time.monotonic(), 0.1))[0])
            except subprocess.TimeoutExpired:
                late.append(i)
                p.send_signal(signal.SIGABRT)  # it says where it stands
                texts.append(p.communicate()[0])
    finally:
        for p in every:
            p.kill()
    found = [p.returncode for p in every]
    said = "\n".join(f"--- {i}\n{t}" for i, t in enumerate(texts))
    assert found == codes and not late, f"{found}, not {codes}; {late} stood still\n{said}"
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
def compiling(base):
    def heavy(x):
        for _ in range(6):
            x = lax.sort(lax.sin(lax.sort(lax.cos(x))))
        return lax.psum(x, "i")
    return np.asarray(lamina.pmap(heavy, axis_name="i")(np.ones((devices, 64), np.float32)))
# In these the one that dies does as the others do.
def loop(base):
    while True:
        base = f(base)
large = np.ones((devices, 1 << 21), np.float32)
def psum(base):
    while True:
        f(large).block_until_ready()
def eight(base):
    while True:
        lamina.block_until_ready([f(large) for _ in range(8)])
all_compile = compiling
def connecting(base):
    def look():  # dies when some of the others have come to it, and not all
        while len(os.listdir("/dev/fd")) < open_now + 2 * devices * devices:
            time.sleep(0.0002)
        die()
    if me == victim:
        open_now = len(os.listdir("/dev/fd"))
        threading.Thread(target=look, daemon=True).start()
    while True:
        f(base)
addresses = sys.argv[4].split(",")
me, n = rank, int(sys.argv[3])
for turn, (address, case) in enumerate(zip(addresses, sys.argv[5:])):
    name, victim = case.split(":")
    victim = int(victim)
    base = join(address, n, me)
    if name in ("first", "connecting"):
        lamina.devices()
    elif name != "unmet":
        right(n, base)
    if me == victim:
        time.sleep(0.15)
        if name in ("loop", "psum", "eight", "all_compile", "connecting"):
            if name != "connecting":
                threading.Timer(0.05 if name == "all_compile" else 0.2, die).start()
            globals()[name](base)
            time.sleep(9)
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

CASES = ("unmet", "first", "wait", "queue", "chain", "between", "item", "compiling", "loop", "psum", "eight", "all_compile",
         "connecting")


@pytest.mark.parametrize("n, devices, cases", [
    (4, 2, ["connecting:0", "queue:1", "wait:1"]),
    pytest.param(4, 1, ["unmet:0", "loop:2", "compiling:1"], marks=pytest.mark.slow)])
def test_who_is_left_raises_works_alone_and_meets_again(n, devices, cases):
    """Of four processes one dies, then of the three that meet again another, ...; functions made at first go on."""
    shrunk(n, devices, cases)


LATE = """
from lamina_runtime._distributed import gloo_sockets
cut, before = gloo_sockets.shut_connections, []
def late(places, spared):
    cut(places, spared if before else gloo_sockets.internal_connections(places))
    before.append(1)
gloo_sockets.shut_connections = late
"""


def test_a_device_does_not_wait_for_another_of_its_process_that_failed():
    """As where the devices of a process connect, for a group over processes, just after a loss was heard of."""
    shrunk(3, 2, ["loop:0"], LATE)


def shrunk(n, devices, cases, before=""):
    """Seconds from each death, or from the call if that came later, until a survivor was told."""
    codes, alive = [0] * n, list(range(n))
    for case in cases:
        codes[alive.pop(int(case.split(":")[1]))] = -signal.SIGKILL
    for r in alive:
        codes[r] = 20 + r
    addresses = ",".join(free() for _ in range(len(cases) + 1))
    texts = ends([start(before + SHRINK, r, devices, n, addresses, *cases) for r in range(n)], codes)
    deaths = sorted(float(t) for text in texts for t in re.findall(r"dies (\S+);", text))
    told = [re.findall(r"told (\S+) (\S+);", text)[::2] for text in texts]  # each asks twice
    found = [float(now) - max(float(begun), deaths[turn]) for each in told for turn, (begun, now) in enumerate(each)]
    assert len(deaths) == len(cases) and len(found) == sum(n - k for k in range(1, len(cases) + 1)), texts
    assert max(found) < 3 + 5, found
    return found


@pytest.mark.skipif(not EVERY, reason="minutes: LAMINA_LOSSES=every")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n, devices, victim", [(n, devices, victim) for n, devices in SIZES for victim in range(n)])
def test_every_death(n, devices, victim, case):
    found = shrunk(n, devices, [f"{case}:{victim}"])
    print(f"told after {min(found):.3f} to {max(found):.3f} s")


AT_RANDOM = """
import random, subprocess
addresses, n, victim, seed = sys.argv[3].split(","), int(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6])
draw = random.Random(seed)  # the same in all
large = np.ones((devices, 1 << 19), np.float32)
def meet(address, n, rank, seconds):
    say("meets")
    initialize(address, n, rank, initialization_timeout=seconds, heartbeat_timeout_seconds=TIMEOUT)
    say("met")
    return np.arange(devices, dtype=np.float32) + rank * devices
def new(base):
    k = draw.randrange(1, 9)
    total = lamina.pmap(lambda x: lax.psum(x * k, "i"), axis_name="i")(base)
    assert float(total[0]) == k * sum(range(n * devices))
def jitted(base):
    lamina.jit(lambda x: f(x) * 2)(base).block_until_ready()
acts = [new, jitted, alone, lambda base: right(n, base), lambda base: [f(base) for _ in range(20)],
        lambda base: [f(large) for _ in range(8)], lambda base: f(large).block_until_ready(), lambda base: time.sleep(0.02)]
if rank == victim:  # killed by another
    moment = float(sys.argv[7])
    say("dies", time.monotonic() + moment)
    subprocess.Popen(["sh", "-c", f"sleep {moment}; kill -9 {os.getpid()}"])
try:
    for address in addresses[:-1]:
        base = meet(address, n, rank, 8)
        for _ in range(draw.randrange(12) if address != addresses[-2] else 10_000):
            begun = time.monotonic()
            draw.choice(acts)(base)
        shutdown()
    raise AssertionError("nobody said anything")
except ProcessLostError as e:
    say("told", begun, time.monotonic())
    assert e.process_indices == (victim,), e
except (ConnectionError, TimeoutError) as e:  # of initialize
    say("unmet", type(e).__name__, e)
    assert not lamina.distributed.is_initialized()
shutdown()
n -= 1
base = np.arange(devices, dtype=np.float32)
if n > 1:
    right(n, meet(addresses[-1], n, rank - (rank > victim), 60))
else:
    alone(base)
sys.exit(20 + rank)
"""


@pytest.mark.skipif(not EVERY, reason="minutes: LAMINA_LOSSES=every")
@pytest.mark.parametrize("seed", range(60))
def test_a_death_at_any_moment(seed):
    """While processes start, meet, compile, launch, wait, leave and meet again."""
    draw = random.Random(seed)
    n, devices = SIZES[seed % len(SIZES)]
    victim, moment = draw.randrange(n), draw.uniform(0, 3)
    addresses = ",".join(free() for _ in range(4))
    texts = ends([start(AT_RANDOM, r, devices, addresses, n, victim, seed, moment) for r in range(n)],
                 [-signal.SIGKILL if r == victim else 20 + r for r in range(n)])
    died = float(re.search(r"dies (\S+);", texts[victim])[1])
    told = [float(now) - max(float(begun), died) for text in texts for begun, now in re.findall(r"told (\S+) (\S+);", text)]
    assert not told or max(told) < 3 + 5, told
    print(f"{n} processes with {devices}, {victim} after {moment:.2f} s, had met {texts[victim].count('met;')} of "
          f"{texts[victim].count('meets')} times;", *(f"told after {t:.3f} s" for t in told))


QUEUED = """
n, victim, moment, shape = int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]), eval(sys.argv[7])
join(sys.argv[3], n, rank)
total = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
def given(turn):  # other numbers each time, so that one launch's are not another's
    x = (np.arange(devices) + rank * devices + turn * (1 + rank)).astype(np.float32)
    return np.broadcast_to(x.reshape(devices, *[1] * len(shape)), (devices, *shape))
def expected(turn):
    return sum(i + turn * (1 + i // devices) for i in range(n * devices))
total(given(0)).block_until_ready()
if rank == victim:
    threading.Timer(moment, die).start()
read = fell = turn = 0
while not fell:
    queue = []
    try:
        for turn in range(turn, turn + 24):
            queue.append((turn % 100, total(given(turn % 100))))
    except ProcessLostError:
        fell += 1
    for number, y in queue:
        try:
            y = np.asarray(y)
        except ProcessLostError:
            fell += 1
        else:
            assert np.all(y == expected(number)), (number, y, expected(number), read, fell)
            read += 1
say("read", read, "fell", fell)
sys.exit(20 + rank)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(48) if EVERY else [0])
def test_what_was_queued_is_right_or_tells(seed):
    """One dies while many launches wait: none that another reads holds what was sent for the next, or a part of its own."""
    draw = random.Random(seed)
    n, devices = SIZES[2:][seed % 4]
    victim, moment, shape = draw.randrange(n), draw.uniform(0.02, 0.5), [(), (3,), (5000,)][seed // 4 % 3]
    address = free()
    texts = ends([start(QUEUED, r, devices, address, n, victim, moment, shape) for r in range(n)],
                 [-signal.SIGKILL if r == victim else 20 + r for r in range(n)])
    print(*re.findall(r"read .*;", "".join(texts)))


SILENT = """
from lamina_runtime import distributed
n, silent = int(sys.argv[5]), int(sys.argv[6])
base = join(sys.argv[3], n, rank)
right(n, base)
print("ready", flush=True)
if rank == silent:
    time.sleep(0.5)  # stopped meanwhile
error = lost(lambda: np.asarray(f(base)), silent)
assert ("no sign of life" in str(error)) == (rank == silent), error
alone(base)
if rank != silent:
    shutdown()
    me, n = rank - (rank > silent), n - 1
    base = join(sys.argv[4], n, me)
    right(n, base)
    if me == 0 and n > 1:  # the others leave in order
        here = distributed._session.connection
        with here.changed:
            assert here.changed.wait_for(lambda: len(here.left) == n - 1, 60)
        assert "has left" in str(lost(lambda: f(base), *range(1, n)))
sys.exit(20 + rank)
"""


@pytest.mark.slow
@pytest.mark.parametrize("n, devices, silent", [(n, d, r) for n, d in SIZES for r in range(n)] if EVERY else [(3, 2, 1)])
def test_silence(n, devices, silent):
    """One is stopped for longer than the timeout. When it wakes it is told that it is lost, and the others have met again."""
    a, b = free(), free()
    every = [start(SILENT, r, devices, a, b, n, silent) for r in range(n)]
    left = [r for r in range(n) if r != silent]
    try:
        for p in every:
            while "ready" not in (line := p.stdout.readline()):
                assert line, p.communicate()
        every[silent].send_signal(signal.SIGSTOP)
        ends([every[r] for r in left], [20 + r for r in left])
        every[silent].send_signal(signal.SIGCONT)
        ends([every[silent]], [20 + silent])
    finally:
        for p in every:
            p.kill()
            p.wait()


BEREFT = """
from lamina_runtime import distributed
n = int(sys.argv[5])
base = join(sys.argv[3], n, rank)
right(n, base)
print("ready", flush=True)
here = distributed._session.connection
with here.changed:
    assert here.changed.wait_for(lambda: here.coordinator_lost, 60)
right(n, base)  # what is connected stays so
if rank == 1:
    time.sleep(1.5)
    die()
lost(lambda: np.asarray(f(base)), 1)
alone(base)
shutdown()
if n > 2:
    right(n - 1, join(sys.argv[4], n - 1, rank - (rank > 1)))
sys.exit(20 + rank)
"""


@pytest.mark.slow
@pytest.mark.parametrize("n, devices", SIZES if EVERY else [(3, 2)])
def test_a_death_after_the_coordinators(n, devices):
    """Nobody tells; the end of the connections does."""
    address, child = spawn_coordinator.start_coordinator("127.0.0.1:0", b"of these tests", 60, detach=False)
    with child:
        every = [start(BEREFT, r, devices, address, free_one, n) for free_one in [free()] for r in range(n)]
        try:
            for p in every:
                while "ready" not in (line := p.stdout.readline()):
                    assert line, p.communicate()
        finally:
            child.kill()
        ends(every, [20, -signal.SIGKILL, 22, 23][:n])


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
@pytest.mark.parametrize("devices", [1, 2] if EVERY else [2])
def test_rounds_with_a_new_process_each(devices):
    """A new process joins the two that are left, and dies: their threads and descriptors go with each round."""
    rounds = 10 if EVERY else 3
    addresses = ",".join(free() for _ in range(rounds + 1))
    stay = [start(ROUNDS, r, devices, addresses, rounds) for r in range(2)]
    come = [start(ROUNDS, 2, devices, addresses, rounds, turn) for turn in range(rounds)]
    begun = time.monotonic()
    texts = ends([*stay, *come], [20, 21] + [-signal.SIGKILL] * rounds)
    print(texts[0], f"{time.monotonic() - begun:.1f} s")


STUCK = """
from lamina_runtime import distributed
from lamina_runtime._distributed import gloo_sockets, interruptible_wait
lamina.config.update("agreement", "off")  # else the first to wait is told before it launches
base = join(sys.argv[3], 2, rank)
right(2, base)
gloo_sockets.shut_connections = lambda *more: None  # as where the connections are not ours
session = distributed._session
session.launcher.waiter = interruptible_wait.install(session._monitor)
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
