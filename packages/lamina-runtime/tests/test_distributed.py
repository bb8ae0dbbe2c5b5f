import os
import socket
import subprocess
import sys
import threading

import pytest
from lamina_runtime import distributed, lobby

PROGRAM = """
import sys
import numpy as np
import lamina_runtime as rt
from lamina_ir import config
from lamina_runtime import distributed
from lamina_runtime.shardings import mapped
from lamina_tracing import jit, lax
from lamina_parallel import pmap, psum
rank = int(sys.argv[2])
config.update("num_cpu_devices", 2)
distributed.initialize(sys.argv[1], 2, rank, initialization_timeout=60, heartbeat_timeout=20)
assert (rt.device_count(), rt.local_device_count(), rt.process_count(), rt.process_index()) == (4, 2, 2, rank)
x = rt.device_put(np.arange(12, dtype=np.float32).reshape(4, 3), mapped(tuple(rt.devices()), 2, ((0, 4),)))
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
try:
    pmap(lambda x: psum(x, "i"), axis_name="i")(rows)
except RuntimeError as e:
    assert "local_devices" in str(e)
try:
    jit(pmap(lambda x: psum(x, "i"), axis_name="i"))(rows)
    raise SystemExit("the other process was left out without a word")
except RuntimeError as e:
    assert "several processes" in str(e)
assert jit(pmap(lambda x: lax.neg(x)))(rows).shape == (2, 3)
assert str(x) == repr(x) == f"{x}" == "Array(shape=(4, 3), dtype=float32)", str(x)
assert float(pmap(lambda x: psum(x, "i"), axis_name="i", devices=rt.local_devices())(rows)[0][0]) == 2
assert float(jit(lambda x: lax.reduce_sum(x, (0, 1)))(x)) == 66  # neither leaves before the other has come this far
print("done")
"""


@pytest.mark.slow
def test_two_processes():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    env = {**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0"}
    both = [subprocess.Popen([sys.executable, "-c", PROGRAM, address, str(rank)], env=env, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in (0, 1)]
    try:
        texts = [p.communicate(timeout=100)[0] for p in both]
    finally:
        for p in both:
            p.kill()
    for p, text in zip(both, texts):
        assert p.returncode == 0 and "done" in text, text


def test_arguments_are_checked(monkeypatch):
    with pytest.raises(ValueError, match="coordinator_address is not given"):
        distributed.initialize(num_processes=2, process_id=0)
    with pytest.raises(ValueError, match="got 2 of 2"):
        distributed.initialize("127.0.0.1:1", 2, 2)
    import lamina_runtime
    lamina_runtime.device_put(1.0)
    with pytest.raises(RuntimeError, match="before the first array"):
        distributed.initialize("127.0.0.1:1", 1, 0)
    assert not distributed.is_initialized()


JOIN = """
import sys
from lamina_runtime import distributed
address, count, rank, timeout = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
try:
    distributed.initialize(address, count, rank, initialization_timeout=timeout)
    print("joined")
except (ValueError, OSError) as e:
    print(type(e).__name__, e)
"""


def free_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{s.getsockname()[1]}"


def attempt(*call):
    """What a process prints last that joins so."""
    env = {**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", JOIN, *map(str, call)], env=env, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, timeout=100)
    assert done.returncode == 0
    return done.stdout.strip()


def test_nobody_at_the_address():
    text = attempt(free_address(), 2, 1, 0.5)
    assert text.startswith("TimeoutError") and "process 1 found nobody at coordinator_address" in text, text


def test_absent_peer():
    text = attempt(free_address(), 2, 0, 0.5)
    assert text.startswith("TimeoutError") and "of 2 processes [1] did not come" in text, text


def test_taken_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        text = attempt(f"127.0.0.1:{s.getsockname()[1]}", 2, 0, 5)
    assert text.startswith("ConnectionError") and "has this port" in text, text


def test_unknown_host():
    with pytest.raises((ValueError, TimeoutError), match="no-such-host.invalid"):
        lobby.join("no-such-host.invalid:1234", 1, 2, 0.5)


def background(f, *args):
    """A thread that calls `f`; `.found` is what it raised, if anything."""
    def run():
        try:
            f(*args)
        except Exception as e:
            t.found = e
    t = threading.Thread(target=run)
    t.found = None
    t.start()
    return t


def test_taken_number_and_other_count():
    address = free_address()
    coordinator = background(lobby.host, address, 3, 60)
    ones = [background(lobby.join, address, 1, 3, 60) for _ in range(2)]
    while all(t.is_alive() for t in ones):
        ones[0].join(0.01)
    second, first = sorted(ones, key=lambda t: t.is_alive())  # whoever came first has the number, and waits
    assert isinstance(second.found, ValueError) and "process_id 1 is taken" in str(second.found)
    with pytest.raises(ValueError, match="num_processes is 2 in process 1 and 3 in process 0"):
        lobby.join(address, 1, 2, 60)
    with socket.create_connection(("127.0.0.1", int(address.split(":")[1]))) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n")
    lobby.join(address, 2, 3, 60)
    for t in (coordinator, first):
        t.join(60)
        assert t.found is None, t.found


def test_absent_peers_are_named_to_all():
    address = free_address()
    waiting = [background(lobby.host, address, 4, 2), background(lobby.join, address, 2, 4, 60)]
    for t in waiting:
        t.join(60)
        assert isinstance(t.found, TimeoutError) and "[1, 3] did not come" in str(t.found)


@pytest.mark.parametrize("address", ["localhost", "localhost:", "localhost:x", ":1", "localhost:70000"])
def test_addresses_are_host_and_port(address):
    with pytest.raises(ValueError, match="must be 'host:port'"):
        lobby.join(address, 1, 2, 0.1)
