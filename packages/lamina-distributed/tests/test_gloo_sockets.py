"""Assumptions of `gloo_sockets`: it finds Gloo's sockets, and closing them is an error of the collective."""
import resource
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# One process with three devices: Gloo connects them like devices of several processes.
PROGRAM = """
import socket
import threading
import time
import numpy as np
from lamina_ir import config, ExecutionError
import lamina_runtime as rt
from lamina_parallel import pmap, psum
from lamina_distributed import _session as distributed
from lamina_distributed._group import gloo_sockets
config.update("num_cpu_devices", 3)
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
distributed.initialize(f"127.0.0.1:{port}", 1, 0)
assert len(rt.devices()) == 3
addresses = distributed._session._monitor.cuts.addresses
f, x = pmap(lambda v: psum(v, "i"), axis_name="i"), np.arange(3.)
"""

LISTENS = """
(address,) = addresses
assert address in gloo_sockets.listening_addresses("127.0.0.1")
assert not gloo_sockets.internal_connections(addresses)
assert np.asarray(f(x)).tolist() == [3., 3., 3.]
found = gloo_sockets.internal_connections(addresses)
assert len(found) == 2 * 3, found  # both ends of a connection for each pair of devices
assert gloo_sockets.count_external_connections(addresses) == 0
"""

SHUT = """
f(x).block_until_ready()
preserved = gloo_sockets.internal_connections(addresses)
gloo_sockets.shut_connections(addresses, preserved)
assert np.asarray(f(x)).tolist() == [3., 3., 3.]
gloo_sockets.shut_connections(addresses, set())
try:
    np.asarray(f(x))
except ExecutionError as e:
    assert "Gloo" in str(e), e
else:
    raise AssertionError("the collective did not fail")
"""

PROBES = """
import os
f(x).block_until_ready()
(address,), guard = addresses, distributed._session._monitor._guard
for i in range(300):
    try:
        with socket.create_connection(address, 0.3) as s:
            if i % 2:
                s.sendall(b"GET / HTTP/1.0")
    except TimeoutError:
        break  # the kernel drops the connection
    time.sleep(0.002)
assert 100 < i < 250, i
assert len(os.listdir("/proc/self/fd")) < 240
assert np.asarray(f(x)).tolist() == [3., 3., 3.]
try:
    guard.raise_if_closed("pmap of `g`")
except RuntimeError as e:
    assert str(e).startswith("pmap of `g`: ") and f"Gloo's port {address[1]}" in str(e) and "(ulimit -n)" in str(e), e
else:
    raise AssertionError("new groups are not refused")
distributed.shutdown()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a filter of Linux")
def test_probes_of_the_port_do_not_exhaust_descriptors():
    done = subprocess.run([sys.executable, "-c", PROGRAM + PROBES], capture_output=True, text=True, timeout=90,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 256)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "of at most 256 file descriptors are in use" in done.stderr


@pytest.mark.parametrize("text", [LISTENS, SHUT], ids=["listens", "shut"])
def test_gloo_uses_sockets_as_assumed(text):
    done = subprocess.run([sys.executable, "-c", PROGRAM + text], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
