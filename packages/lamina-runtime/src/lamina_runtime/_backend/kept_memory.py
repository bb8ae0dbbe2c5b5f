"""Keep freed host memory for later launches, through glibc's `mallopt`.

XLA allocates the results and temporaries of each launch on CPUs with `malloc`. By default glibc maps blocks of over 32 MB
on their own, and returns freed memory at the end of its heap to the system. So the kernel maps and clears the same pages
again at each call. With both limits raised, a warm call causes few page faults; tests/test_kept_memory.py counts them.

glibc gives threads heaps of their own. What one heap keeps is of no use to the threads of another, so all threads share two
heaps on machines of up to 16 cores. One heap would slow down calls with many small results, whose threads wait for its
lock. Blocks of over 64 MB are kept only if they are in the heap of the main thread.

The cost is that freed memory below the limits counts as memory of the process. Other C libraries have no `mallopt`, and
keep their defaults.
"""
from __future__ import annotations

import ctypes
import os
import sys

from lamina_ir import config

__all__ = ["keep_freed_memory", "kept_host_memory_bytes"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of malloc.h
_MOST_CORES = 16  # whose threads share two heaps
_LARGEST = (1 << 31) - 1  # mallopt takes an int
_USER_LIMITS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_",
                "MALLOC_ARENA_MAX")


def _check_size(value: int) -> None:
    if value < 0:
        raise ValueError(f"config kept_host_memory_bytes: expected 0 or more; got {value}")


kept_host_memory_bytes = config.Option(
    "kept_host_memory_bytes", 1 << 29, check=_check_size,
    help="freed host memory that the process keeps for later calls, in bytes, with glibc; read when the CPU client is made; "
    "0: the limits of glibc")


def keep_freed_memory() -> bool:
    """Raise glibc's limits for the process; return whether they changed.

    The limits stay if the setting is 0, if the user has set limits for glibc, or if there is no glibc.
    """
    size = min(kept_host_memory_bytes.value, _LARGEST)
    chosen_by_user = any(name in os.environ for name in _USER_LIMITS) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if not size or chosen_by_user or sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    if (os.cpu_count() or 1) <= _MOST_CORES:
        mallopt(_M_ARENA_MAX, 2)
    # A block that is mapped on its own is returned when it is freed, so only smaller ones are kept.
    return bool(mallopt(_M_MMAP_THRESHOLD, size // 2)) and bool(mallopt(_M_TRIM_THRESHOLD, size))
