"""Rules of the coordinator for systems whose processes were given `min_processes`.

Such a process always comes with the same index and count. After the timeout those that have come form a smaller system,
if they are enough. A process that comes later waits, and the members of the smaller system are notified. They leave, and
meet it with the indices that they had at first.

Two systems of one job must not work side by side, each of them with a part of the processes. So a smaller system is
formed only if no complete system is at work, and if one of its processes was in the last one.

Only the standard library is imported, so that the coordinator starts fast.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._group import membership
from .._typing import Message

__all__ = ["WAIT_PAUSE", "find_awaited", "is_complete", "is_elastic", "is_enough", "is_valid_hello", "renumber"]

WAIT_PAUSE = 5.0  # seconds between two messages to a process that waits while a complete system is at work


def is_valid_hello(hello: Message) -> bool:
    """Return whether the number of processes that is enough has the right form."""
    least = hello.get("min")
    return least is None or (type(least) is int and 0 < least <= hello["count"])


def is_elastic(hello: Message) -> bool:
    """Return whether a process waits for those that replace lost ones, and may work in a smaller system."""
    return hello.get("min") is not None


def is_complete(s: Any) -> bool:
    """Return whether all members of a system that was formed are still in it, so that it can compute."""
    return s.phase != "gathering" and len(s.members) == s.record.count


def is_enough(s: Any, has_records: bool) -> bool:
    """Return whether the members of a gathering system may form a smaller one.

    Args:
      has_records: whether a system was formed at this coordinator before.
    """
    hellos = [c.hello for c in s.members.values()]
    return (all(is_elastic(h) and len(hellos) >= h["min"] for h in hellos)
            and (not has_records or any(h.get("previous") for h in hellos)))


def renumber(s: Any) -> None:
    """Make a gathering system complete: its members get the indices from 0 on, in the same order."""
    members = [s.members[r] for r in sorted(s.members)]
    for rank, c in enumerate(members):
        c.hello = {**c.hello, "rank": rank, "count": len(members)}
    s.members, s.count, s.record = dict(enumerate(members)), len(members), membership.Record(len(members))


def find_awaited(s: Any, gathering: Iterable[Any]) -> bool:
    """Return whether a system that is at work should leave, because a process waits for which it has a place."""
    return any(is_elastic(c.hello) and c.hello["count"] > s.count for g in gathering for c in g.members.values())
