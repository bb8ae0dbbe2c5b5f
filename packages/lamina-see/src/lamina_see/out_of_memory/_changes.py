"""The memory that can be allocated, and the changes of a program that would fit into it."""
from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._savings.chunks import choose_axis, divisors
from .._savings.find import describe_chunks
from ._peak import PeakMemory, new_bytes

__all__ = ["Change", "available_bytes", "find_changes", "find_parts", "format_size"]


class Change(NamedTuple):
    """A change of a program that needs less memory.

    Attributes:
      kind: `donate`, `checkpoint`, `chunk` or `placement`.
      how: what to do, as "donate ...".
      nbytes: the new memory that a call then needs, besides its arguments.
      fits: whether that is available.
    """

    kind: str
    how: str
    nbytes: int
    fits: bool


def format_size(n: int) -> str:
    """Return a size as text, such as `1.5 GiB`."""
    size, units = float(n), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.3g} {units[0]}"


def available_bytes(device: Any = None) -> int | None:
    """Return the bytes that can be allocated now, on a device or, for a CPU, in this process; None if unknown."""
    stats = device.memory_stats() if device is not None and device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    found = []
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        import resource  # noqa: PLC0415 (Unix only)
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            found.append(max(0, limit - pages * os.sysconf("SC_PAGE_SIZE")))
        limit_text = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        if limit_text != "max":
            used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
            found.append(max(0, int(limit_text) - used))
    except (OSError, ValueError, ImportError):
        pass  # another system, or no such limit
    return min(found) if found else None


def find_changes(peak: PeakMemory, available: int, devices: int = 1, more_devices: int = 0) -> list[Change]:
    """Return the changes that reduce the memory of a program, the smallest change of the program first.

    Args:
      peak: its memory.
      available: the bytes that can be allocated.
      devices: the number of devices on which it runs.
      more_devices: the number of devices with memory of their own that it could use; 0: no more.
    """
    needed = new_bytes(peak)
    changes = []
    if peak.donated:
        changes.append(("donate", f"donate the {format_size(peak.donated)} of arguments that have the type of a result "
                        "(donate_argnums)", needed - peak.donated))
    residuals = sorted([v for v in peak.values if v.held_by == "residual"], key=lambda v: v.first)
    groups, kept = _group([v.nbytes for v in residuals])
    if groups:
        place = max(residuals, key=lambda v: v.nbytes).place
        changes.append(("checkpoint", f"save {groups} of the {len(residuals)} residuals and recompute the others "
                        f"(lamina.checkpoint of {groups} consecutive parts of the function{f' at {place}' if place else ''})",
                        needed - sum([v.nbytes for v in residuals]) + kept))
    chunk = _chunk(peak, needed, available)
    if chunk is not None:
        changes.append(chunk)
    if more_devices > devices:
        share = more_devices // devices
        changes.append(("placement", f"split the arguments over {more_devices} devices (NamedSharding)", needed // share))
    return [Change(kind, how, max(0, n), n <= available) for kind, how, n in changes]


def _group(sizes: Sequence[int]) -> tuple[int, int]:
    """Divide residuals, in the order in which they are made, into groups that need the least memory.

    The last one of each group is saved. The others are recomputed group by group, so one group of them is alive at a time.

    Returns:
      (number of groups, bytes); (0, 0) if no division saves memory.
    """
    best = 0, sum(sizes)
    for length in range(2, len(sizes) + 1):
        groups = [sizes[i:i + length] for i in range(0, len(sizes), length)]
        nbytes = sum([g[-1] for g in groups]) + max([sum(g[:-1]) for g in groups])
        if nbytes < best[1]:
            best = len(groups), nbytes
    return best if best[0] else (0, 0)


def _chunk(peak: PeakMemory, needed: int, available: int) -> tuple[str, str, int] | None:
    """Return the split of the axis that most live bytes have, into as few parts as fit."""
    axis, nbytes = _divided_axis(peak)
    parts = find_parts(peak, available)
    if axis is None or not parts:
        return None
    return "chunk", describe_chunks(axis, parts[0]), needed - nbytes + nbytes // parts[0]


def find_parts(peak: PeakMemory, available: int) -> list[int]:
    """Return the smallest number of parts that should fit, or one row at a time if none does; and some larger ones.

    Empty if no axis is divided.
    """
    axis, nbytes = _divided_axis(peak)
    if axis is None:
        return []
    rest, possible = new_bytes(peak) - nbytes, divisors(axis)
    first = next((i for i, k in enumerate(possible) if rest + nbytes // k <= available), len(possible) - 1)
    return [possible[first], *[k for k in possible[first + 1:] if k >= 2 * possible[first]][:2]]


def _divided_axis(peak: PeakMemory) -> tuple[int | None, int]:
    """Return (size of the axis that most live bytes have, these bytes)."""
    inside = [(v.dims, v.nbytes) for v in peak.values if v.argument is None and v.held_by not in ("constant", "result")]
    axis = choose_axis(inside, [v.dims for v in peak.values if v.argument is not None])
    return axis, sum([n for dims, n in inside if axis in dims])
