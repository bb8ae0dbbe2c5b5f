"""Freed host memory is kept for later launches, up to a limit that a setting and the user's environment choose."""
from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
from lamina_ir import config
from lamina_runtime._backend.kept_memory import keep_freed_memory, kept_host_memory_bytes

FAULTS = """
import resource, statistics, sys
import numpy as np
import lamina_runtime as runtime
from lamina_ir import config, prims
from lamina_tracing import jit
from lamina_tracing.primitives import bind
config.update("kept_host_memory_bytes", int(sys.argv[1]))
f, x = jit(lambda x: bind(prims.add_p, x, x)), runtime.device_put(np.ones(1 << 23, np.float32))
def count():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    f(x).block_until_ready()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
for _ in range(10):
    count()
print(statistics.median(count() for _ in range(31)))  # a result that another thread frees late takes new pages once
"""


def count_page_faults(kept: int) -> float:
    done = subprocess.run([sys.executable, "-c", FAULTS, str(kept)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return float(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_warm_call_with_a_large_result_has_few_page_faults() -> None:
    assert count_page_faults(1 << 29) <= 10 < count_page_faults(0)


def test_setting_and_environment_keep_the_limits_of_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    with kept_host_memory_bytes(0):
        assert not keep_freed_memory()
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert not keep_freed_memory()
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=131072")
    assert not keep_freed_memory()
    assert "MALLOC_MMAP_THRESHOLD_" not in os.environ


@pytest.mark.parametrize("value", [-1, "much", 1.5])
def test_unusable_sizes_are_refused(value: object) -> None:
    with pytest.raises((ValueError, TypeError), match="kept_host_memory_bytes"):
        config.update("kept_host_memory_bytes", value)
