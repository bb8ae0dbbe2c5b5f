"""Rules of the coordinator for systems whose processes were given `min_processes`.

Such a process always comes with the same index and count. After the timeout those that have come form a smaller system,
if they are enough. A process that comes later waits, and the members of the smaller system are notified. They leave, and
meet it with the indices that they had at first.

Two systems of one job must not work side by side, each of them with a part of the processes. So a smaller system is
formed only if no complete system is at work, and if one of its processes was in the last one.

Only the standard library is imported, so that the coordinator starts fast.
"""
from __future__ import annotations

import time
from collections.abc import Sequence

from . import membership
from .system import Connection, System

__all__ = ["WAIT_PAUSE", "is_at_work", "is_awaited", "is_elastic", "is_enough", "renumber", "set_timeout"]

WAIT_PAUSE = 5.0  # seconds between two messages to a process that waits while a complete system is at work


def is_elastic(c: Connection) -> bool:
    """Return whether a process waits for those that replace lost ones, and may work in a smaller system."""
    return c.hello.get("min") is not None


def is_at_work(s: System) -> bool:
    """Return whether all members of a system that was formed are still in it, so that it can compute."""
    return s.phase != "gathering" and len(s.members) == s.count


def is_enough(s: System, has_records: bool) -> bool:
    """Return whether the members of a gathering system may form a smaller one.

    Args:
      has_records: whether a system was formed at this coordinator before.
    """
    members = s.members.values()
    return (bool(members) and all(is_elastic(c) and len(members) >= c.hello["min"] for c in members)
            and (not has_records or any(c.hello.get("previous") for c in members)))


def renumber(s: System) -> None:
    """Make a gathering system complete: its members get the indices from 0 on, in the same order."""
    members = [s.members[r] for r in sorted(s.members)]
    for rank, c in enumerate(members):
        c.hello = {**c.hello, "rank": rank, "count": len(members), "full": s.count}
    s.members, s.count, s.record = dict(enumerate(members)), len(members), membership.Record(len(members))


def is_awaited(s: System, systems: Sequence[System]) -> bool:
    """Return whether a smaller system at work should leave, because a process waits that fits to its members."""
    hello = next((c.hello for c in s.members.values()), {})
    return "full" in hello and any(
        (c.hello["count"], c.hello.get("min"), c.hello.get("fits")) == (hello["full"], hello["min"], hello.get("fits"))
        for other in systems if other.phase == "gathering" for c in other.members.values())


def set_timeout(s: System, begins_again: bool = False) -> None:
    """Set when a gathering system fails, or forms with fewer processes: when the time of its first member is over.

    Args:
      begins_again: whether the time of each member begins now, because those for which it waits have just left another
        system.
    """
    for c in s.members.values():
        if begins_again and is_elastic(c):
            c.until = time.monotonic() + c.hello["timeout"]
            c.lines.send(wait=c.hello["timeout"])
    s.until = min((c.until for c in s.members.values()), default=float("inf"))
