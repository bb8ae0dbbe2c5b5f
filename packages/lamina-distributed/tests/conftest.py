"""Eight virtual CPU devices and a separate compilation cache on disk. Both are read when jaxlib starts."""
import atexit
import contextlib
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile

import pytest

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
os.environ["LAMINA_CACHE_DIR"] = tempfile.mkdtemp(prefix="lamina-cache-")
atexit.register(shutil.rmtree, os.environ["LAMINA_CACHE_DIR"], ignore_errors=True)

import lamina_distributed  # noqa: E402, F401  fills the hooks


class Processes:
    """Subprocesses that run concurrently; the fixture ends those still running after the test."""

    def __init__(self):
        self.running = []
        self.env = {**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0", "LAMINA_TOKEN": "of these tests"}

    def start(self, *command, **env):
        """Start `python -c ...` or a command; stdout and stderr become one text."""
        command = [str(c) for c in command]
        if command[0] != sys.executable and not os.path.isabs(command[0]):
            command = [sys.executable, "-c", *command]
        p = subprocess.Popen(command, env={**self.env, **env}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.running.append(p)
        return p

    def wait(self, *started):
        """Wait for processes; return (exit status, output) of each."""
        return [(p.communicate(timeout=100)[0], p.returncode)[::-1] for p in started]

    def run_all(self, program, count, *more):
        """Run a program `count` times as `program address count rank ...`; return (exit status, output) of each."""
        address = self.free_address()
        return self.wait(*[self.start(program, address, count, rank, *more) for rank in range(count)])

    @staticmethod
    def free_address():
        """Return an address whose port is below the ephemeral range, which concurrent tests may use."""
        for port in random.sample(range(20_000, 32_000), 1_000):
            with contextlib.suppress(OSError), socket.socket() as s:
                s.bind(("127.0.0.1", port))
                return f"127.0.0.1:{port}"
        raise AssertionError("no port is free")


@pytest.fixture
def processes():
    """A `Processes`; processes that still run after the test are killed."""
    found = Processes()
    try:
        yield found
    finally:
        for p in found.running:
            p.kill()
            p.communicate()


@pytest.fixture
def closing():
    """Return a function that returns its argument, and closes it after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda made: stack.enter_context(contextlib.closing(made))
