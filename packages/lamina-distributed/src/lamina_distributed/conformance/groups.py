"""Run a program in several processes of this machine, and return what each of them reports."""
from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from typing import Any

DEVICES = 2  # of each process
_LIMIT = 120.0  # seconds for a program
_START = """
import json, os, signal, sys, time
import numpy as np
import lamina_runtime as rt
from lamina_ir import config
from lamina_parallel import pmap, psum
from lamina_tracing import jit, lax
from lamina_distributed import initialize, is_initialized, shutdown
from lamina_runtime.extend.processes import ProcessLostError
rank, count, addresses = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
config.update("num_cpu_devices", 2)
def report(**values):
    print("report", json.dumps(values), flush=True)
def join(address=addresses[0], n=count, r=rank):
    initialize(address, n, r, initialization_timeout=60, heartbeat_timeout_seconds=10)
    assert is_initialized(), "initialize: nothing was joined"
    return np.arange(2, dtype=np.float32) + 2 * r
def error_of(act, *args, **kwargs):
    try:
        act(*args, **kwargs)
    except Exception as e:
        return [kind.__name__ for kind in type(e).__mro__] + [str(e)]
    return []
total = pmap(lambda x: psum(x, "i"), axis_name="i")
double = jit(lambda x: x * 2)
"""


def free_addresses(count: int) -> list[str]:
    """Return loopback addresses with free ports below the ephemeral range, from which other programs get theirs."""
    found: list[str] = []
    for port in random.sample(range(20_000, 32_000), 1_000):
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            found.append(f"127.0.0.1:{port}")
        if len(found) == count:
            return found
    raise AssertionError("no port is free")


@cache
def run(program: str, count: int) -> list[tuple[int, dict[str, Any], str]]:
    """Run a program in `count` processes; return (exit status, all reported values, output) of each.

    The result is cached, because several tests look at it. A process that runs for too long is killed; its status is -9.
    """
    environment = {**os.environ, "LAMINA_CACHE": "0", "LAMINA_TOKEN": "conformance", "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu",
                   "TF_CPP_MIN_LOG_LEVEL": "2"}
    addresses = free_addresses(3)
    started = [subprocess.Popen([sys.executable, "-c", _START + program, str(rank), str(count), *addresses], env=environment,
                                text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(count)]
    until, found = time.monotonic() + _LIMIT, []
    try:
        for p in started:
            try:
                output = p.communicate(timeout=max(until - time.monotonic(), 0.1))[0]
            except subprocess.TimeoutExpired:
                p.kill()
                output = p.communicate()[0]
            values: dict[str, Any] = {}
            for line in output.splitlines():
                if line.startswith("report "):
                    values.update(json.loads(line.removeprefix("report ")))
            found.append((p.returncode, values, output))
    finally:
        for p in started:
            p.kill()
    return found


def check_status(found: list[tuple[int, dict[str, Any], str]], killed: int | None = None) -> list[dict[str, Any]]:
    """Check that all processes of `run` ended well except `killed`; return the values of each."""
    for rank, (status, _, output) in enumerate(found):
        assert status == (-signal.SIGKILL if rank == killed else 0), f"process {rank}: status {status}\n{output}"
    return [values for _, values, _ in found]
