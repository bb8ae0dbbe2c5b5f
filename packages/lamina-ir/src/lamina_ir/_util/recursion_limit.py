"""Raise the recursion limit for deeply nested programs: 500 levels need several times the usual limit.

The limit is raised while such programs are processed, and restored when the last of them is done. Each nested call of a
jitted function also needs C stack, whose size per thread determines the maximal depth.

The limit is global, so threads share it, but there is no lock. Ctrl-C can come between any two steps, and a lock taken
just before would never be released. The next call would hang. Instead, each step is one dict operation or idempotent,
and `_update_limit` repeats until the requirements did not change while it set the limit.
"""
from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["USUAL_LEVELS", "fits_usual_limit", "raise_limit", "restore_limit", "with_recursion_limit"]

USUAL_LEVELS = 16  # levels that the usual limit allows
# A gradient needs three levels for each program. Python 3.12.0 to 3.12.2 count calls through C separately, and allow
# only 750 of them whatever the limit is (python/cpython#112215).
_MAX_LEVELS = 400 if (3, 12) <= sys.version_info < (3, 12, 3) else 1600
_FRAMES_PER_LEVEL = 48  # up to 15 were measured, and transformed programs are up to three times as deep as traced ones
_levels_by_holder: dict[int, int] = {}  # id of a holder -> levels it needs
_own_limits: set[int] = set()  # limits set by this module; any other one was set by the user
_user_limit, _max_level = 0, 0


def raise_limit(level: int, holder: object) -> None:
    """Raise the recursion limit for this many levels, until `restore_limit(holder)` is called.

    Args:
      level: the nesting depth of programs.
      holder: the object that needs the limit, compared by identity.
    Raises:
      RecursionError: there are more than 1600 levels (400 under Python 3.12.0 to 3.12.2).
    """
    global _max_level
    if level > _MAX_LEVELS:
        raise RecursionError(f"traced functions call each other more than {_MAX_LEVELS} levels deep: end a recursion "
                             "by a condition that does not depend on traced values, or use lax.while_loop or lax.scan")
    _max_level = max(_max_level, level)
    _levels_by_holder[id(holder)] = level
    _update_limit()


def restore_limit(holder: object) -> None:
    """Restore the recursion limit, unless another holder needs it. Without a matching `raise_limit`, do nothing.

    Args:
      holder: the object given to `raise_limit`.
    """
    _levels_by_holder.pop(id(holder), None)
    _update_limit()


def _update_limit() -> None:
    global _user_limit
    while True:
        levels, limit = _levels_by_holder.copy(), sys.getrecursionlimit()
        if limit not in _own_limits:
            _user_limit = limit
        new_limit = _user_limit
        if levels:
            # Never lower it while a thread may be deep in the stack. `+ 1` makes it odd, unlike limits that users set.
            new_limit = max(limit, _user_limit + _FRAMES_PER_LEVEL * max(levels.values()) + 1)
            _own_limits.add(new_limit)
        if limit != new_limit:
            sys.setrecursionlimit(new_limit)
        if _levels_by_holder == levels:
            return


def fits_usual_limit() -> bool:
    """Whether the usual limit suffices for the deepest program so far, so that `with_recursion_limit()` changes
    nothing.

    >>> with with_recursion_limit(100):
    ...     fits_usual_limit()
    False
    """
    return _max_level <= USUAL_LEVELS


@contextmanager
def with_recursion_limit(level: int = 0) -> Iterator[None]:
    """Context manager or decorator: raise the recursion limit for this depth, or for the deepest program so far.

    Args:
      level: the nesting depth of programs, if known.

    >>> with with_recursion_limit(100):
    ...     sys.getrecursionlimit() >= 4800
    True
    """
    level = max(level, _max_level)
    if level <= USUAL_LEVELS:
        yield
        return
    holder = object()
    try:
        raise_limit(min(level, _MAX_LEVELS), holder)
        yield
    finally:
        restore_limit(holder)
