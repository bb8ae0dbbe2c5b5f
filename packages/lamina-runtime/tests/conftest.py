"""Eight virtual CPU devices, and an on-disk cache of this run's own. Both are read when jaxlib starts."""
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

import lamina_runtime  # noqa: E402, F401  fills the slots


class Processes:
    """Programs that run beside each other, ended at the latest when the test is."""

    def __init__(self):
        self.running = []
        self.env = {**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0", "LAMINA_TOKEN": "of these tests"}

    def start(self, *command, **env):
        """Run `python -c ...` or a command; its output is one text."""
        command = [str(c) for c in command]
        if command[0] != sys.executable and not os.path.isabs(command[0]):
            command = [sys.executable, "-c", *command]
        p = subprocess.Popen(command, env={**self.env, **env}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.running.append(p)
        return p

    def ends(self, *started):
        """[(exit status, output)] of processes that were started."""
        return [(p.communicate(timeout=100)[0], p.returncode)[::-1] for p in started]

    def together(self, program, count, *more):
        """Start a program `count` times as `program address count rank ...`."""
        address = self.free_address()
        return self.ends(*[self.start(program, address, count, rank, *more) for rank in range(count)])

    @staticmethod
    def free_address():
        """Below the ports that the system gives to who asks for any, as tests that run beside do."""
        for port in random.sample(range(20_000, 32_000), 1_000):
            with contextlib.suppress(OSError), socket.socket() as s:
                s.bind(("127.0.0.1", port))
                return f"127.0.0.1:{port}"
        raise AssertionError("no port is free")


@pytest.fixture
def processes():
    found = Processes()
    try:
        yield found
    finally:
        for p in found.running:
            p.kill()
            p.communicate()
