"""Room on Python's stack for programs nested in one another: 500 levels take several times the usual limit.

The limit is raised while such a program is at work, and put back when the last of them is done. Each nested call of a
jitted function also takes some 3.5 kB of C stack, of which a thread commonly has 8 MB: hence the most that is allowed.

The limit is the interpreter's, so that threads share it, and Ctrl-C may come between any two steps: a lock that was taken then
would never be given back, and the thread would stand still the next time. So there is none. Each step is one operation of a
dict, or may be done again; who changes what is needed then sets the limit until nothing has changed meanwhile.
"""
from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ENOUGH", "enter", "leave", "roomy", "shallow"]

ENOUGH = 16  # levels that fit the usual limit
# A gradient takes three levels for each program. Python 3.12.0 to 3.12.2 count calls that pass through C by themselves, and
# end at 750 of them whatever the limit is (python/cpython#112215).
_MOST = 400 if (3, 12) <= sys.version_info < (3, 12, 3) else 1600
_FRAMES = 48  # per level; up to 15 were seen, and programs made of traced ones lie up to three times as deep
_needs: dict[int, int] = {}  # ids of what holds room -> levels
_given: set[int] = set()  # limits that were set here; any other is somebody else's word
_usual, _deepest = 0, 0


def enter(level: int, holder: object) -> None:
    """Make room for so many levels; `leave(holder)` must follow.

    Args:
      level: how many programs are nested in one another.
      holder: who needs the room, told apart by identity.
    Raises:
      RecursionError: there are more than 1600 (400 under Python 3.12.0 to 3.12.2).
    """
    global _deepest
    if level > _MOST:
        raise RecursionError(f"traced functions call one another more than {_MOST} levels deep: one that calls itself needs "
                             "an end that does not depend on traced values, or lax.while_loop, lax.scan")
    _deepest = max(_deepest, level)
    _needs[id(holder)] = level
    _fit()


def leave(holder: object) -> None:
    """Put the limit back, once nobody needs the room. Of one that holds none nothing comes, so that it may be said twice.

    Args:
      holder: who needs it no longer.
    """
    _needs.pop(id(holder), None)
    _fit()


def _fit() -> None:
    global _usual
    while True:
        needs, limit = _needs.copy(), sys.getrecursionlimit()
        if limit not in _given:
            _usual = limit
        wanted = _usual
        if needs:  # while others are deep in the stack it is never lowered; odd, as no limit that people set is
            wanted = max(limit, _usual + _FRAMES * max(needs.values()) + 1)
            _given.add(wanted)
        if limit != wanted:
            sys.setrecursionlimit(wanted)
        if _needs == needs:
            return


def shallow() -> bool:
    """Whether the usual limit fits the deepest program there was, so that `roomy()` would change nothing.

    >>> with roomy(100):  # which there was, from then on
    ...     shallow()
    False
    """
    return _deepest <= ENOUGH


@contextmanager
def roomy(level: int = 0) -> Iterator[None]:
    """A block, or a function that it decorates, with room for so many levels and for the deepest program there was.

    Args:
      level: how many programs are nested in one another, if that is known.

    >>> with roomy(100):
    ...     sys.getrecursionlimit() >= 4800
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
