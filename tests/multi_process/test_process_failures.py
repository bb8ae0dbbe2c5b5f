"""Processes that die, are suspended, or lose their coordinator: the rest raise, work alone, and initialize again."""
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lamina_distributed._rendezvous import spawn_coordinator

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import free  # noqa: E402

EVERY = os.environ.get("LAMINA_LOSSES") == "every"  # each kind of failure, of any of 2 to 4 processes, and ten rounds
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
def check_result(n, base):
    y = np.asarray(f(base))  # np.array_equal would return False if reading raises
    assert np.array_equal(y, base + sum(range(n * devices)))
def check_local_work(base):
    assert float(g(np.float32(3))) == 7 and float(lamina.numpy.arange(5.).sum()) == 10
    own = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i", devices=lamina.local_devices())
    assert np.array_equal(own(base), np.full(devices, base.sum()))
def expect_process_lost(act, *lost_ranks):
    begun = time.monotonic()
    try:
        act()
    except ProcessLostError as e:
        now = time.monotonic()
        assert now - begun < TIMEOUT + 5
        report("raised", begun, now)
        assert e.process_indices == lost_ranks, (e.process_indices, lost_ranks)
        assert isinstance(e, RuntimeError) and str(lost_ranks) in str(e), e
        return e
    raise AssertionError("no ProcessLostError")
def report(*parts):
    os.write(1, (" ".join(map(str, parts)) + ";\\n").encode())  # in one write
def die():
    report("dies", time.monotonic())
    os.kill(os.getpid(), signal.SIGKILL)
"""


def start(text, rank, devices, *more):
    # NCCL lets only processes of different hosts share a GPU: this lets the tests run on a machine with one.
    env = {**os.environ, "NCCL_HOSTID": f"member {rank}", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_FLAGS": "",
           "LAMINA_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "2", "LAMINA_TOKEN": "of these tests",
           "LAMINA_JOB_ID": "of these tests"}
    command = [sys.executable, "-X", "faulthandler", "-c", START + text, *map(str, (rank, devices, *more))]
    return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_for(every, codes, limit=120):
    """Wait for processes; AssertionError with all output if one ends with another status than its code."""
    until, texts, late = time.monotonic() + limit, [], []
    try:
        for i, p in enumerate(every):
            try:
                texts.append(p.communicate(timeout=max(until - time.monotonic(), 0.1))[0])
            except subprocess.TimeoutExpired:
                late.append(i)
                p.send_signal(signal.SIGABRT)  # faulthandler prints the stack
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
# In these cases the dying process runs the same calls as the others.
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
    def look():  # dies when some other processes are connected, not all
        while len(os.listdir("/dev/fd")) < open_now + 2 * devices * devices - 1:
            time.sleep(0.0002)
        die()
    if me == victim:
        open_now = len(os.listdir("/dev/fd"))
        threading.Thread(target=look, daemon=True).start()
    while True:
        f(base)
addresses = sys.argv[4].split(",")
me, n = rank, int(sys.argv[3])
for number, (address, case) in enumerate(zip(addresses, sys.argv[5:])):
    name, victim = case.split(":")
    victim = int(victim)
    base = join(address, n, me)
    if name in ("first", "connecting"):
        lamina.devices()
    elif name != "unmet":
        check_result(n, base)
    if me == victim:
        time.sleep(0.15)
        if name in ("loop", "psum", "eight", "all_compile", "connecting"):
            if name != "connecting":
                threading.Timer(0.05 if name == "all_compile" else 0.2, die).start()
            globals()[name](base)
            time.sleep(9)
        die()
    expect_process_lost(lambda: globals()[name](base), victim)
    expect_process_lost(lambda: f(base), victim)
    if name != "unmet":  # no devices exist before those of all processes are known
        check_local_work(base)
        lamina.effects_barrier()
    shutdown()
    me, n = me - (me > victim), n - 1
if n > 1:
    check_result(n, join(addresses[-1], n, me))
sys.exit(20 + rank)
"""

CASES = ("unmet", "first", "wait", "queue", "chain", "between", "item", "compiling", "loop", "psum", "eight", "all_compile",
         "connecting")


@pytest.mark.parametrize("n, devices, cases", [
    (4, 2, ["connecting:0", "queue:1", "wait:1"]),
    pytest.param(4, 1, ["unmet:0", "loop:2", "compiling:1"], marks=pytest.mark.slow)])
def test_remaining_processes_raise_work_and_initialize_again(n, devices, cases):
    """One of four processes dies, then one of the remaining three, ...; functions jitted at first still work."""
    check_deaths(n, devices, cases)


LATE = """
from lamina_distributed._group import gloo_sockets
cut, before = gloo_sockets.shut_connections, []
def late(addresses, preserved):
    cut(addresses, preserved if before else gloo_sockets.internal_connections(addresses))
    before.append(1)
gloo_sockets.shut_connections = late
"""


def test_device_does_not_wait_for_a_failed_device_of_its_process():
    """Simulates devices of one process that connect for a group over processes just after a process was lost."""
    check_deaths(3, 2, ["loop:0"], LATE)


def check_deaths(n, devices, cases, before=""):
    """Run processes of which some die; return the seconds from each death, or a later call, until an error was raised."""
    codes, alive = [0] * n, list(range(n))
    for case in cases:
        codes[alive.pop(int(case.split(":")[1]))] = -signal.SIGKILL
    for r in alive:
        codes[r] = 20 + r
    addresses = ",".join(free() for _ in range(len(cases) + 1))
    texts = wait_for([start(before + SHRINK, r, devices, n, addresses, *cases) for r in range(n)], codes)
    deaths = sorted(float(t) for text in texts for t in re.findall(r"dies (\S+);", text))
    raised = [re.findall(r"raised (\S+) (\S+);", text)[::2] for text in texts]  # each process calls twice
    found = [float(now) - max(float(begun), deaths[number]) for each in raised for number, (begun, now) in enumerate(each)]
    assert len(deaths) == len(cases) and len(found) == sum(n - k for k in range(1, len(cases) + 1)), texts
    assert max(found) < 3 + 5, found
    return found


@pytest.mark.skipif(not EVERY, reason="minutes: LAMINA_LOSSES=every")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n, devices, victim", [(n, devices, victim) for n, devices in SIZES for victim in range(n)])
def test_each_kind_of_death(n, devices, victim, case):
    found = check_deaths(n, devices, [f"{case}:{victim}"])
    print(f"raised after {min(found):.3f} to {max(found):.3f} s")


AT_RANDOM = """
import random, subprocess
addresses, n, victim, seed = sys.argv[3].split(","), int(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6])
draw = random.Random(seed)  # the same in all processes
large = np.ones((devices, 1 << 19), np.float32)
def initialize_in(address, n, rank, seconds):
    report("initializes")
    initialize(address, n, rank, initialization_timeout=seconds, heartbeat_timeout_seconds=TIMEOUT)
    report("initialized")
    return np.arange(devices, dtype=np.float32) + rank * devices
def new(base):
    k = draw.randrange(1, 9)
    total = lamina.pmap(lambda x: lax.psum(x * k, "i"), axis_name="i")(base)
    assert float(total[0]) == k * sum(range(n * devices))
def jitted(base):
    lamina.jit(lambda x: f(x) * 2)(base).block_until_ready()
acts = [new, jitted, check_local_work, lambda base: check_result(n, base), lambda base: [f(base) for _ in range(20)],
        lambda base: [f(large) for _ in range(8)], lambda base: f(large).block_until_ready(), lambda base: time.sleep(0.02)]
if rank == victim:  # killed by a subprocess
    moment = float(sys.argv[7])
    report("dies", time.monotonic() + moment)
    subprocess.Popen(["sh", "-c", f"sleep {moment}; kill -9 {os.getpid()}"])
try:
    for address in addresses[:-1]:
        base = initialize_in(address, n, rank, 8)
        for _ in range(draw.randrange(12) if address != addresses[-2] else 10_000):
            begun = time.monotonic()
            draw.choice(acts)(base)
        shutdown()
    raise AssertionError("no error was raised")
except ProcessLostError as e:
    report("raised", begun, time.monotonic())
    assert e.process_indices == (victim,), e
except (ConnectionError, TimeoutError) as e:  # of initialize
    report("unmet", type(e).__name__, e)
    assert not lamina.distributed.is_initialized()
shutdown()
n -= 1
base = np.arange(devices, dtype=np.float32)
if n > 1:
    check_result(n, initialize_in(addresses[-1], n, rank - (rank > victim), 60))
else:
    check_local_work(base)
sys.exit(20 + rank)
"""


@pytest.mark.skipif(not EVERY, reason="minutes: LAMINA_LOSSES=every")
@pytest.mark.parametrize("seed", range(60))
def test_death_at_a_random_time(seed):
    """Processes die while they start, initialize, compile, launch, wait, leave and initialize again."""
    draw = random.Random(seed)
    n, devices = SIZES[seed % len(SIZES)]
    victim, moment = draw.randrange(n), draw.uniform(0, 3)
    addresses = ",".join(free() for _ in range(4))
    texts = wait_for([start(AT_RANDOM, r, devices, addresses, n, victim, seed, moment) for r in range(n)],
                 [-signal.SIGKILL if r == victim else 20 + r for r in range(n)])
    died = float(re.search(r"dies (\S+);", texts[victim])[1])
    raised = [float(now) - max(float(begun), died) for text in texts for begun, now in re.findall(r"raised (\S+) (\S+);", text)]
    assert not raised or max(raised) < 3 + 5, raised
    print(f"{n} processes with {devices}, {victim} after {moment:.2f} s, had met {texts[victim].count('met;')} of "
          f"{texts[victim].count('initializes')} times;", *(f"raised after {t:.3f} s" for t in raised))


QUEUED = """
n, victim, moment, shape = int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]), eval(sys.argv[7])
join(sys.argv[3], n, rank)
total = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
def given(number):  # different values for each launch
    x = (np.arange(devices) + rank * devices + number * (1 + rank)).astype(np.float32)
    return np.broadcast_to(x.reshape(devices, *[1] * len(shape)), (devices, *shape))
def expected(number):
    return sum(i + number * (1 + i // devices) for i in range(n * devices))
total(given(0)).block_until_ready()
if rank == victim:
    threading.Timer(moment, die).start()
read = failed = number = 0
while not failed:
    queue = []
    try:
        for number in range(number, number + 24):
            queue.append((number % 100, total(given(number % 100))))
    except ProcessLostError:
        failed += 1
    for launch, y in queue:
        try:
            y = np.asarray(y)
        except ProcessLostError:
            failed += 1
        else:
            assert np.all(y == expected(launch)), (launch, y, expected(launch), read, failed)
            read += 1
report("read", read, "failed", failed)
sys.exit(20 + rank)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(48) if EVERY else [0])
def test_queued_results_are_right_or_raise(seed):
    """A process dies while launches are queued: no result that can be read contains data of another launch, or partial data."""
    draw = random.Random(seed)
    n, devices = SIZES[2:][seed % 4]
    victim, moment, shape = draw.randrange(n), draw.uniform(0.02, 0.5), [(), (3,), (5000,)][seed // 4 % 3]
    address = free()
    texts = wait_for([start(QUEUED, r, devices, address, n, victim, moment, shape) for r in range(n)],
                 [-signal.SIGKILL if r == victim else 20 + r for r in range(n)])
    print(*re.findall(r"read .*;", "".join(texts)))


SILENT = """
from lamina_distributed import _session as distributed
n, silent = int(sys.argv[5]), int(sys.argv[6])
base = join(sys.argv[3], n, rank)
check_result(n, base)
print("ready", flush=True)
if rank == silent:
    time.sleep(0.5)  # suspended here
error = expect_process_lost(lambda: np.asarray(f(base)), silent)
assert ("no sign of life" in str(error)) == (rank == silent), error
check_local_work(base)
if rank != silent:
    shutdown()
    me, n = rank - (rank > silent), n - 1
    base = join(sys.argv[4], n, me)
    check_result(n, base)
    if me == 0 and n > 1:  # the others call shutdown
        here = distributed._session.connection
        with here.changed:
            assert here.changed.wait_for(lambda: len(here.left) == n - 1, 60)
        assert "has left" in str(expect_process_lost(lambda: f(base), *range(1, n)))
sys.exit(20 + rank)
"""


@pytest.mark.slow
@pytest.mark.parametrize("n, devices, silent", [(n, d, r) for n, d in SIZES for r in range(n)] if EVERY else [(3, 2, 1)])
def test_suspended_process_is_lost(n, devices, silent):
    """A process is suspended for longer than the timeout. It raises when it resumes; the others have initialized again."""
    a, b = free(), free()
    every = [start(SILENT, r, devices, a, b, n, silent) for r in range(n)]
    left = [r for r in range(n) if r != silent]
    try:
        for p in every:
            while "ready" not in (line := p.stdout.readline()):
                assert line, p.communicate()
        every[silent].send_signal(signal.SIGSTOP)
        wait_for([every[r] for r in left], [20 + r for r in left])
        every[silent].send_signal(signal.SIGCONT)
        wait_for([every[silent]], [20 + silent])
    finally:
        for p in every:
            p.kill()
            p.wait()


NO_COORDINATOR = """
from lamina_distributed import _session as distributed
n = int(sys.argv[5])
base = join(sys.argv[3], n, rank)
check_result(n, base)
print("ready", flush=True)
here = distributed._session.connection
with here.changed:
    assert here.changed.wait_for(lambda: here.coordinator_lost, 60)
check_result(n, base)  # existing connections stay open
if rank == 1:
    time.sleep(1.5)
    die()
expect_process_lost(lambda: np.asarray(f(base)), 1)
check_local_work(base)
shutdown()
if n > 2:
    check_result(n - 1, join(sys.argv[4], n - 1, rank - (rank > 1)))
sys.exit(20 + rank)
"""


@pytest.mark.slow
@pytest.mark.parametrize("n, devices", SIZES if EVERY else [(3, 2)])
def test_death_after_the_coordinator_died(n, devices):
    """No process reports the death; closed connections show it."""
    address, child = spawn_coordinator.start_coordinator("127.0.0.1:0", b"of these tests", 60, detach=False)
    with child:
        every = [start(NO_COORDINATOR, r, devices, address, free_one, n) for free_one in [free()] for r in range(n)]
        try:
            for p in every:
                while "ready" not in (line := p.stdout.readline()):
                    assert line, p.communicate()
        finally:
            child.kill()
        wait_for(every, [20, -signal.SIGKILL, 22, 23][:n])


ROUNDS = """
import gc
address, rounds = sys.argv[3].split(","), int(sys.argv[4])
def count_resources():
    gc.collect()
    pages = int(open("/proc/self/statm").read().split()[1])
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), pages * 4096 >> 10
if rank == 2:  # takes part in round number sys.argv[5]
    base = join(address[int(sys.argv[5])], 3, 2)
    check_result(3, base)
    die()
for number in range(rounds):
    base = join(address[number], 3, rank)
    check_result(3, base)
    expect_process_lost(lambda: [np.asarray(f(base)) for _ in range(3)], 2)
    shutdown()
    until = time.monotonic() + 5  # C++ threads end some time after they are released
    while number > 1 and count_resources()[0] > before[0] and time.monotonic() < until:
        time.sleep(0.05)
    now = count_resources()
    print(number, now, flush=True)
    if number <= 1:
        before = now
assert now[0] <= before[0] and now[1] <= before[1], (before, now)
check_result(2, join(address[-1], 2, rank))
sys.exit(20 + rank)
"""


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2] if EVERY else [2])
def test_rounds_with_a_new_process(devices):
    """A new process joins the two remaining ones and dies; threads and descriptors are freed in each round."""
    rounds = 10 if EVERY else 3
    addresses = ",".join(free() for _ in range(rounds + 1))
    stay = [start(ROUNDS, r, devices, addresses, rounds) for r in range(2)]
    come = [start(ROUNDS, 2, devices, addresses, rounds, number) for number in range(rounds)]
    begun = time.monotonic()
    texts = wait_for([*stay, *come], [20, 21] + [-signal.SIGKILL] * rounds)
    print(texts[0], f"{time.monotonic() - begun:.1f} s")


STUCK = """
from lamina_distributed import _session as distributed
from lamina_distributed._group import gloo_sockets, interruptible_wait
lamina.config.update("agreement", "off")  # else the first waiting process raises before it launches
base = join(sys.argv[3], 2, rank)
check_result(2, base)
gloo_sockets.shut_connections = lambda *more: None  # as if the connections were not Gloo's
session = distributed._session
session.launcher.waiter = interruptible_wait.install(session._monitor)
check_result(2, base)
x = g(base)
if rank == 1:
    time.sleep(0.5)
    die()
y = f(base)

assert not y.is_ready()
expect_process_lost(lambda: np.asarray(g(y)), 1)
expect_process_lost(lambda: y.block_until_ready(), 1)
expect_process_lost(lambda: lamina.block_until_ready([x, y]), 1)
expect_process_lost(lambda: f(base), 1)
assert np.array_equal(x, base * 2 + 1)
sys.exit(20)
"""


@pytest.mark.slow
def test_blocked_result_raises_if_connections_cannot_be_closed():
    address = free()
    wait_for([start(STUCK, r, 2, address) for r in range(2)], [20, -signal.SIGKILL], 60)
