"""Run programs in several processes, for tests: `run(text, processes, devices)`."""
from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

# stdout is duplicated and replaced by stderr: Gloo writes partial lines from several threads.
START = """
import os, sys
own = os.dup(1)
os.dup2(2, 1)
sys.stdout = os.fdopen(own, "w", buffering=1)
import numpy as np
import lamina
address, processes, rank, devices = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
lamina.config.update("num_cpu_devices", devices)
lamina.distributed.initialize(address, processes, rank, initialization_timeout=60)
rows = processes * devices
mine = slice(rank * devices, (rank + 1) * devices)

def expect_error(kind, message, f, *args):
    try:
        f(*args)
    except kind as e:
        assert message in str(e), e
    else:
        raise SystemExit(f"no error with: {message}")
"""

# For exact comparison with one process; `interleaved` has all devices, first the first device of each process.
ALIKE = """
from lamina import grad, jit, lax, pmap, vmap
import lamina.numpy as jnp

def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and np.array_equal(got, want), (got, want)

D = lamina.devices()
interleaved = sorted(D, key=lambda d: (d.id % devices, d.process_index))
"""


def free() -> str:
    """Return an address whose port is below the ephemeral range. Gloo and concurrent tests take ephemeral ports, so a
    port of that range could be taken before the program uses it."""
    for port in random.sample(range(20_000, 32_000), 1_000):
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return f"127.0.0.1:{port}"
    raise AssertionError("no port is free")


def coordinator_pids(address: str) -> list[int]:
    """Return the ids of the coordinators that listen at an address."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            arguments = path.read_bytes().decode(errors="replace").split("\0")
            if address in arguments and any("coordinator" in a for a in arguments):
                found.append(int(path.parent.name))
    return found


def run(text: str, processes: int = 2, devices: int = 2, cache: str = "0", more: int = 0) -> list[str]:
    """Run a program text in several processes; return the output of each.

    The text may use `rank`, `processes`, `devices` (per process), `rows` (number of all devices) and `mine` (the slice of
    this process); `sys.argv[5:]` has `more` addresses for later calls of initialize.

    Raises:
      AssertionError: a process failed; the message has the output of all.
    """
    addresses = [free() for _ in range(1 + more)]
    # With a job id process 0 does not wait whether processes of another job come.
    env = {**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": cache, "TF_CPP_MIN_LOG_LEVEL": "2", "LAMINA_JOB_ID": addresses[0]}
    given = [str(processes), "", str(devices), *addresses[1:]]
    every = []
    for rank in range(processes):
        given[1] = str(rank)
        every.append(subprocess.Popen([sys.executable, "-c", START + text, addresses[0], *given], env=env, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    try:
        texts = [p.communicate(timeout=150) for p in every]
    finally:
        for p in every:
            p.kill()
    assert not any(p.returncode for p in every), "\n".join(f"--- process {i}\n{t}{e}" for i, (t, e) in enumerate(texts))
    return [t.rstrip("\n") for t, _ in texts]
