"""Who belongs to a system: jobs at one address, the end of the coordinator, several losses, processes that were counted
out."""
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import free  # noqa: E402

EVERY = os.environ.get("LAMINA_LOSSES") == "every"
HEARTBEAT = 3

START = f"""
import os, signal, sys, threading, time
import numpy as np
import lamina
from lamina import lax
from lamina.distributed import CoordinatorLostError, ProcessLostError, initialize, shutdown
address, n, rank, devices = sys.argv[1], *map(int, sys.argv[2:5])
lamina.config.update("num_cpu_devices", devices)
f = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
g = lamina.jit(lambda x: x * 2 + 1)
ones = np.ones(devices, np.float32)
def join(n, rank):
    initialize(address, n, rank, initialization_timeout=40, heartbeat_timeout_seconds={HEARTBEAT})
def check(n):
    assert np.array_equal(np.asarray(f(ones)), np.full(devices, n * devices))
def check_local_work():
    assert float(g(np.float32(3))) == 7
    own = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i", devices=lamina.local_devices())
    assert np.array_equal(np.asarray(own(ones)), np.full(devices, devices))
def expect(kind, act, *lost):
    begun = time.monotonic()
    try:
        act()
    except ProcessLostError as e:
        assert type(e) is kind and e.process_indices == lost, (type(e), e.process_indices, e)
        assert time.monotonic() - begun < {HEARTBEAT} + 5
        return
    raise AssertionError("no error was raised")
def pause():  # until the test has killed or stopped something
    print("ready", connection().meeting.pid, flush=True)
    sys.stdin.readline()
def connection():
    from lamina_distributed import _session
    return _session._session.connection
"""


class Group:
    """Processes that run a program text; a context."""

    def __init__(self, text, n, devices, *args):
        address = free()
        env = {**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "2", "LAMINA_JOB_ID": address}
        self.all = [subprocess.Popen([sys.executable, "-c", START + text, address, *map(str, (n, r, devices, *args))], env=env,
                                     text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                    for r in range(n)]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for p in self.all:
            p.kill()
            p.communicate()

    def await_ready(self):
        for p in self.all:
            lines = []
            while "ready" not in (line := p.stdout.readline()):
                lines.append(line)
                assert line, "".join(lines)
            self.coordinator = int(line.split()[-1]) if line.split()[-1].isdigit() else None

    def kill_coordinator(self):
        os.kill(self.coordinator, signal.SIGKILL)

    def resume(self, *ranks):
        for r in ranks:
            self.all[r].stdin.write("\n")
            self.all[r].stdin.flush()

    def expect_success(self, *ranks, limit=60):
        until = time.monotonic() + limit
        for r in ranks:
            text = self.all[r].communicate(timeout=max(until - time.monotonic(), 0.1))[0]
            assert self.all[r].returncode == 0, f"process {r}: {text}"


COORDINATOR_GONE = """
stage, number = sys.argv[5], int(sys.argv[6])
join(n, rank)
if stage != "unknown":
    lamina.devices()
if stage == "connected":
    check(n)
pause()
here = connection()
if rank == 0:
    os.kill(here.meeting.pid, number)
with here.changed:
    assert here.changed.wait_for(lambda: here.coordinator_lost, 20)
assert not here.lost
if stage == "connected":
    check(n)
else:
    expect(CoordinatorLostError, lambda: f(ones) if stage == "known" else lamina.devices())
if stage != "unknown":
    check_local_work()
shutdown()
join(n, rank)
check(n)
"""
KILLED, STOPPED = int(signal.SIGKILL), int(signal.SIGSTOP)


@pytest.mark.slow
@pytest.mark.parametrize("n, devices, stage, number", [(2, 2, "known", KILLED)] + EVERY * [
    (3, 1, "unknown", KILLED), (3, 2, "connected", KILLED), (3, 1, "connected", STOPPED), (2, 2, "known", STOPPED)])
def test_end_of_the_coordinator_is_not_that_of_a_process(n, devices, stage, number):
    """No process is named as lost, connected programs and local work continue, and all form a system again."""
    with Group(COORDINATOR_GONE, n, devices, stage, number) as group:
        group.await_ready()
        group.resume(*range(n))
        group.expect_success(*range(n))


COUNTED_OUT = """
join(n, rank)
lamina.devices()
pause()
if rank == 1:
    time.sleep(0.5)  # resumes here, after the others have counted it out
expect(ProcessLostError, lambda: f(ones), 1)
check_local_work()
"""


@pytest.mark.slow
def test_process_that_was_counted_out_names_itself_and_works_alone():
    with Group(COUNTED_OUT, 2, 2) as group:
        group.await_ready()
        group.all[1].send_signal(signal.SIGSTOP)
        group.resume(0, 1)
        group.expect_success(0)
        group.all[1].send_signal(signal.SIGCONT)
        group.expect_success(1)


IN_A_LOOP = """
join(n, rank)
rows = np.random.default_rng(0).normal(size=(devices, 700, 64)).astype(np.float32)
step = lamina.pmap(lambda p, x: p - 1e-6 * lax.psum(x.T @ (x @ p), "i"), axis_name="i", in_axes=(None, 0), out_axes=None)
p = step(np.ones((64, 10), np.float32), rows)
g(np.float32(3))
print("ready", flush=True)
try:
    while True:
        p = step(p, rows)
except ProcessLostError as e:
    assert e.process_indices == (int(sys.argv[5]),), e
assert float(g(np.float32(3))) == 7 and float(lamina.numpy.arange(5.).sum()) == 10
if sys.argv[6] == "shutdown":
    shutdown()
    check_local_work()
"""


@pytest.mark.skipif(not EVERY, reason="minutes: LAMINA_LOSSES=every")
@pytest.mark.parametrize("seed", range(16))
def test_process_that_is_stopped_in_a_loop_does_not_hang(seed):
    """Gloo may forget to end a collective whose connection breaks as the process resumes."""
    draw = random.Random(seed)
    n, victim = draw.choice((2, 3)), draw.randrange(2)
    with Group(IN_A_LOOP, n, 1, victim, draw.choice(("shutdown", "exit"))) as group:
        group.await_ready()
        time.sleep(draw.random())
        group.all[victim].send_signal(signal.SIGSTOP)
        time.sleep(HEARTBEAT + 3)
        group.all[victim].send_signal(signal.SIGCONT)
        group.expect_success(*range(n))


SEVERAL_LOST = """
import re
count, me, lost = n, rank, ()  # of the system that was formed last
old = list(range(n))           # the first index of each of its processes
victims = [int(r) for r in sys.argv[5].split(",")]
while True:
    left = [r for r in range(count) if r not in lost]
    try:
        join(len(left), left.index(me))
        old, count, me, lost = [old[r] for r in left], len(left), left.index(me), ()
        check(count)
        if count == n:
            pause()
        while set(old) & set(victims):
            f(ones)
            time.sleep(0.05 * rank)
        break
    except ProcessLostError as e:
        print("lost", *e.process_indices, flush=True)
        lost = e.process_indices
        shutdown()
    except ConnectionError as e:  # the second one was killed while the processes connected
        lost = (*lost, *[left[int(r)] for r in re.findall(r"process (\\d+) \\(", str(e))])
assert old == [r for r in range(n) if r not in victims], old
"""


@pytest.mark.slow
@pytest.mark.parametrize("n, devices, how", [(4, 1, "kill")] + EVERY * [
    (4, 2, "kill"), (4, 1, "stop"), (4, 1, "later"), (4, 1, "coordinator")])
def test_remaining_processes_agree_on_several_losses(n, devices, how):
    """Two processes are killed at once, one is killed and one stopped, one a little later, or one with the coordinator."""
    victims = (1, 3) if how != "coordinator" else (1,)
    with Group(SEVERAL_LOST, n, devices, ",".join(map(str, victims)), how) as group:
        group.await_ready()
        group.resume(*range(n))
        time.sleep(0.5)
        if how == "coordinator":
            group.kill_coordinator()
        group.all[1].kill()
        if how == "later":
            time.sleep(0.3)
        if how != "coordinator":
            group.all[3].send_signal(signal.SIGSTOP if how == "stop" else signal.SIGKILL)
        group.expect_success(*[r for r in range(n) if r not in victims])
