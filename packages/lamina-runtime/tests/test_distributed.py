import os
import socket
import subprocess
import sys

import pytest
from lamina_runtime import distributed

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
