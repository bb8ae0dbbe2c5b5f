"""Several processes in one program; each test starts its own processes."""
import os
import signal
import socket

import pytest
from lamina_distributed import _session as distributed
from lamina_distributed._rendezvous import spawn_coordinator

PROGRAM = """
import sys
import numpy as np
import lamina_runtime as rt
from lamina_ir import config
from lamina_distributed import _session as distributed
from lamina_runtime._sharding.shardings import mapped_sharding
from lamina_tracing import jit, lax
from lamina_parallel import pmap, psum
rank = int(sys.argv[2])
config.update("num_cpu_devices", 2)
distributed.initialize(sys.argv[1], 2, rank, initialization_timeout=60, heartbeat_timeout_seconds=20)
assert (rt.device_count(), rt.local_device_count(), rt.process_count(), rt.process_index()) == (4, 2, 2, rank)
x = rt.device_put(np.arange(12, dtype=np.float32).reshape(4, 3), mapped_sharding(tuple(rt.devices()), 2, ((0, 4),)))
assert len(x.addressable_shards) == 2 and "shape=(4, 3)" in repr(x)
for _ in range(20):
    total = jit(lambda x: lax.reduce_sum(x, (0, 1)))(x)
assert float(total) == 66
try:
    np.asarray(x)
except RuntimeError as e:
    assert "other processes" in str(e)
rows = np.ones((2, 3), np.float32)
assert pmap(lambda x: lax.neg(x))(rows).shape == (2, 3)
assert float(pmap(lambda x: psum(x, "i"), axis_name="i")(rows)[0][0]) == 4
assert float(jit(pmap(lambda x: psum(x, "i"), axis_name="i"))(rows)[0][0]) == 4
assert jit(pmap(lambda x: lax.neg(x)))(rows).shape == (2, 3)
assert str(x) == repr(x) == f"{x}" == "Array(shape=(4, 3), dtype=float32)", str(x)
assert float(pmap(lambda x: psum(x, "i"), axis_name="i", devices=rt.local_devices())(rows)[0][0]) == 2
assert float(jit(lambda x: lax.reduce_sum(x, (0, 1)))(x)) == 66  # no process leaves before the other reaches this line
print("done")
"""


@pytest.mark.slow
def test_two_processes_share_devices(processes):
    address = processes.free_address()
    for status, text in processes.wait(*[processes.start(PROGRAM, address, rank) for rank in (0, 1)]):
        assert status == 0 and "done" in text, text


START = """
import os, signal, socket, sys, threading, time
import numpy as np
import lamina_runtime as rt
from lamina_ir import config
from lamina_distributed import _session as distributed; from lamina_runtime._backend import backends
from lamina_runtime._sharding.shardings import mapped_sharding
from lamina_tracing import jit, lax
address, count, rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
add = jit(lambda x: lax.reduce_sum(x, (0,)))
def total(n):
    x = rt.device_put(np.arange(n, dtype=np.float32), mapped_sharding(tuple(rt.devices()), 1, ((0, n),)))
    return float(add(x))
def join(address=address, count=count, rank=rank, **more):
    distributed.initialize(address, count, rank, initialization_timeout=60, heartbeat_timeout_seconds=20, **more)
    return distributed._session.connection
def wait_until_port_is_closed():
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            socket.create_connection((address.split(":")[0], int(address.split(":")[1])), 5).close()
        except OSError:
            return True
        time.sleep(0.05)
"""

LEAVING = START + """
config.update("num_cpu_devices", 1)
here = join()
assert total(4) == 6
if rank == 0:  # the process that started the coordinator
    os.kill(os.getpid(), signal.SIGKILL)
if rank == 1:
    os._exit(5)
if rank == 2:
    raise KeyError("of rank 2")
with here.changed:
    assert here.changed.wait_for(lambda: len(here.lost) + len(here.left) == 3, 60)
assert set(here.lost) == {0, 1} and set(here.left) == {2} and not here.coordinator_lost, (here.lost, here.left)
assert float(jit(lambda x: lax.mul(x, x))(np.float32(3))) == 9  # local programs still run
distributed.shutdown()
distributed.shutdown()
assert not distributed.is_initialized() and rt.process_count() == 1 and total(1) == 0
assert wait_until_port_is_closed()
sys.exit(7)
"""


@pytest.mark.slow
def test_ended_processes_do_not_end_the_others(processes):
    found = processes.run_all(LEAVING, 4)
    assert [status for status, _ in found] == [-signal.SIGKILL, 5, 1, 7], found
    assert "KeyError: 'of rank 2'" in found[2][1] and "Traceback" not in found[3][1], found


AGAIN = START + """
config.update("num_cpu_devices", 2)
def count_resources():
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), threading.active_count()
for iteration in range(6):
    new_rank = (iteration + rank) % 2
    if iteration % 2:
        join(rank=new_rank)
        assert rt.process_index() == new_rank and rt.device_count() == 4
        assert total(4) == 6
        y = rt.device_put(np.float32(iteration))
        try:
            distributed.initialize(address, count, rank)
        except RuntimeError as e:
            assert "initialize was called already" in str(e)
        distributed.shutdown()
    else:
        assert total(2) == 1
        try:
            distributed.initialize(address, count, rank)
        except RuntimeError as e:
            assert "a device has been used already" in str(e)
        y = rt.device_put(np.float32(iteration))
        backends.reset()
    assert float(y) == iteration
    del y
    if iteration == 3:  # C++ threads end some time after they are released
        time.sleep(1)
        before = count_resources()
until = time.monotonic() + 30
while not all(now <= then for now, then in zip(count_resources(), before)):
    assert time.monotonic() < until, (count_resources(), before)
    time.sleep(0.1)
child = os.fork()
if not child:
    os._exit(distributed.is_initialized())
assert os.waitpid(child, 0)[1] == 0
here = join()
if rank == 0:
    child = os.fork()  # must not hold sockets open
    if not child:
        os.close(1), os.close(2)
        time.sleep(60)
        os._exit(0)
    print("child", child, flush=True)
    os._exit(0)
with here.changed:
    assert here.changed.wait_for(lambda: here.lost, 30)
"""


@pytest.mark.slow
def test_repeated_initialize_and_shutdown(processes):
    """Alternates between one process and two; threads and descriptors are freed each time."""
    found = processes.run_all(AGAIN, 2)
    child = [int(line.split()[1]) for _, text in found for line in text.splitlines() if line.startswith("child")]
    for pid in child:
        os.kill(pid, signal.SIGKILL)
    assert [status for status, _ in found] == [0, 0] and len(child) == 1, found


ALONE = START + """
config.update("num_cpu_devices", 1)
here = join()
assert total(2) == 1
print("working", flush=True)
with here.changed:
    assert here.changed.wait_for(lambda: here.coordinator_lost, 60)
time.sleep(3)  # longer than jaxlib takes to end a process without service
assert total(2) == 1  # existing connections stay open
distributed.shutdown()
sys.exit(4)
"""


@pytest.mark.slow
def test_processes_continue_without_the_coordinator(processes):
    """The coordinator is started by hand and killed. Each process still has its own connections."""
    address, child = spawn_coordinator.start_coordinator("127.0.0.1:0", b"of these tests", 60, detach=False)
    try:
        both = [processes.start(ALONE, address, 2, rank) for rank in (0, 1)]
        for p in both:
            while "working" not in (line := p.stdout.readline()):
                assert line, p.wait()
        child.kill()
        assert [status for status, _ in processes.wait(*both)] == [4, 4]
    finally:
        with child:
            child.kill()


def test_invalid_initialize_arguments_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="coordinator_address is not given"):
        distributed.initialize(num_processes=2, process_id=0)
    with pytest.raises(ValueError, match="got 2 of 2"):
        distributed.initialize("127.0.0.1:1", 2, 2)
    for bad in ({"initialization_timeout": 0}, {"heartbeat_timeout_seconds": float("nan")}, {"shutdown_timeout_seconds": -1},
                {"local_device_ids": [0, 0]}, {"local_device_ids": []}, {"coordinator_bind_address": "x"},
                {"cluster_detection_method": "abacus"}, {"coordinator_address": "nowhere"}, {"num_processes": 0},
                {"num_processes": 1 << 40}, {"min_processes": 0}, {"min_processes": 3}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            distributed.initialize(**{"coordinator_address": "127.0.0.1:1", "num_processes": 1, "process_id": 0, **bad})
    for bad in ({"process_id": 0.5}, {"process_id": False}, {"num_processes": True}, {"num_processes": "2"},
                {"initialization_timeout": "long"}):
        with pytest.raises(TypeError, match=next(iter(bad))):
            distributed.initialize(**{"coordinator_address": "127.0.0.1:1", "num_processes": 1, "process_id": 0, **bad})
    import lamina_runtime
    lamina_runtime.device_put(1.0)
    with pytest.raises(RuntimeError, match="before the first array"):
        distributed.initialize("127.0.0.1:1", 1, 0)
    assert not distributed.is_initialized()


def test_error_of_coordinator_that_cannot_listen():
    """Another coordinator may exist, so the error is reported only if none is found."""
    found = distributed._start_coordinator("192.0.2.1:29400", b"a key of these tests", 5)  # not an address of this machine
    assert "Process 0 could not start one at 192.0.2.1:29400: Cannot assign" in found
    with socket.create_server(("127.0.0.1", 0)) as s:
        address = f"127.0.0.1:{s.getsockname()[1]}"
        assert "Address already in use" in distributed._start_coordinator(address, b"a key of these tests", 5)


JOIN = """
import sys
from lamina_ir import config
from lamina_distributed import _session as distributed
for line in sys.stdin.read().splitlines():
    address, count, rank, timeout, x64, host = line.split()
    config.update("enable_x64", x64 == "64")
    try:
        distributed.initialize(address, int(count), int(rank), initialization_timeout=float(timeout))
        print("joined")
        distributed.shutdown()
    except Exception as e:
        print(type(e).__name__, e)
"""


def try_to_join(processes, *lines):
    """Let two processes try to join once per line; return what both print for each. A line has an argument for each process."""
    found = []
    for rank in (0, 1):
        p = processes.start(JOIN.replace("sys.stdin.read()", repr("\n".join(line[rank] for line in lines))))
        found.append(p)
    texts = processes.wait(*found)
    assert [status for status, _ in texts] == [0, 0], texts
    return list(zip(*[[line for line in text.splitlines() if line.startswith("joined") or "distributed.initialize" in line]
                      for _, text in texts]))


@pytest.mark.slow
def test_mismatched_arguments_raise_in_all_processes(processes):
    """All attempts run in the same two processes; the last one succeeds."""
    a = [processes.free_address() for _ in range(8)]
    taken = socket.create_server(("127.0.0.1", 0))
    with taken:
        t = f"127.0.0.1:{taken.getsockname()[1]}"
        lines = [
            ((f"{a[0]} 2 1 1 32 -",) * 2, "TimeoutError", "process 1 found no coordinator"),
            ((f"{a[1]} 2 0 30 32 -",) * 2, "ValueError", "process_id 0 is taken"),
            ((f"{a[2]} 2 0 30 32 -", f"{a[2]} 3 1 30 32 -"), "ValueError", "num_processes is"),
            ((f"{a[3]} 3 0 2 32 -", f"{a[3]} 3 2 30 32 -"), "TimeoutError", "[1] did not come"),
            ((f"{a[4]} 2 0 30 32 -", f"{a[4]} 2 1 30 64 -"), "ValueError", "'enable_x64': True"),
            ((f"{t} 2 0 2 32 -", f"{t} 2 1 2 32 -"), "ConnectionError", "another program has this port"),
            ((f"{a[5]} 2 0 30 32 -", f"{a[5]} 2 1 30 32 -"), "joined", "joined")]
        found = try_to_join(processes, *[line for line, _, _ in lines])
    for both, (_, kind, words) in zip(found, lines, strict=True):
        assert all(text.startswith(kind) and words in text for text in both), both
