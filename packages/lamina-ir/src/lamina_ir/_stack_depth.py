"""Room on Python's stack for programs nested in one another: 500 levels take several times the usual limit.

The limit is raised while such a program is at work, and put back when the last of them is done. Each nested call of a
jitted function also takes some 3.5 kB of C stack, of which a thread commonly has 8 MB: hence the most that is allowed.
"""
from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ENOUGH", "enter", "leave", "roomy"]

ENOUGH = 16  # levels that fit the usual limit
_MOST = 1600  # a gradient takes three levels for each program
_FRAMES = 24  # per level; up to 15 were seen
_lock = threading.Lock()
_users: set[int] = set()  # ids of what holds the room
_before, _given, _deepest = 0, 0, 0


def enter(level: int, holder: object) -> None:
    """Make room for so many levels; `leave(holder)` must follow.

    Args:
      level: how many programs are nested in one another.
      holder: who needs the room, told apart by identity.
    Raises:
      RecursionError: there are more than 1600.
    """
    global _before, _given, _deepest
    if level > _MOST:
        raise RecursionError(f"traced functions call one another more than {_MOST} levels deep: one that calls itself needs "
                             "an end that does not depend on traced values, or lax.while_loop, lax.scan")
    with _lock:
        limit = sys.getrecursionlimit()
        if not _users:
            _before = limit
        _users.add(id(holder))
        _deepest = max(_deepest, level)
        if limit < _before + _FRAMES * level:
            _given = _before + _FRAMES * level
            sys.setrecursionlimit(_given)


def leave(holder: object) -> None:
    """Put the limit back, once nobody needs the room. Of one that holds none nothing comes, so that it may be said twice.

    Args:
      holder: who needs it no longer.
    """
    global _given
    with _lock:
        _users.discard(id(holder))
        if not _users and sys.getrecursionlimit() == _given:  # else someone else has set it
            sys.setrecursionlimit(_before)
            _given = 0


@contextmanager
def roomy(level: int = 0) -> Iterator[None]:
    """A block, or a function that it decorates, with room for so many levels and for the deepest program there was.

    Args:
      level: how many programs are nested in one another, if that is known.

    >>> with roomy(100):
    ...     sys.getrecursionlimit() >= 2400
    True
    """
    level = max(level, _deepest)
    if level <= ENOUGH:
        yield
        return
    holder = object()
    try:
        enter(min(level, _MOST), holder)
        yield
    finally:
        leave(holder)
