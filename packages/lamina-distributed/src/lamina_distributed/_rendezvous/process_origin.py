"""Where a process comes from: its parent, and since when it runs. Known on Linux only, from /proc.

Only the standard library is imported, so that the coordinator starts fast.
"""
from __future__ import annotations

import os
import time
from collections.abc import Iterable

from .._typing import Message

__all__ = ["describe_origin", "has_other_children"]


def describe_origin() -> Message:
    """Return "parent", a text that identifies the parent process on its machine, and "age", seconds since the start."""
    try:
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - _read_stat(os.getpid())[1] / os.sysconf("SC_CLK_TCK")
        return {"parent": _identify(os.getppid()), "age": max(round(age, 2), 0.0)}
    except (OSError, ValueError, AttributeError):
        return {"parent": None, "age": 0.0}


def has_other_children(parent: str, pids: Iterable[int]) -> bool:
    """Return whether a process has other children than these and this process. True if that cannot be found out here.

    Args:
      parent: the text of `describe_origin`.
    """
    try:
        pid = int(parent.split()[-1])
        if _identify(pid) != parent:
            return True  # it is on another machine, or has ended
        children = {int(name) for name in os.listdir("/proc") if name.isdigit() and _find_parent(int(name)) == pid}
    except (OSError, ValueError, AttributeError, IndexError):
        return True
    pids = set(pids)
    return not pids <= children or bool(children - pids - {os.getpid()})


def _identify(pid: int) -> str:
    with open("/proc/sys/kernel/random/boot_id") as f:
        boot = f.read().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')} {_read_stat(pid)[1]} {pid}"


def _find_parent(pid: int) -> int:
    try:
        return _read_stat(pid)[0]
    except OSError:
        return -1  # it has ended


def _read_stat(pid: int) -> tuple[int, int]:
    """Return the parent of a process, and its start in clock ticks since the boot."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return int(fields[1]), int(fields[19])
