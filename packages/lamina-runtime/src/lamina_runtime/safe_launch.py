"""Launching programs on several devices without harm: arguments are checked first, collectives run in a window.

Before jaxlib 0.12 two things end or hang the process: a launch that fails on several devices (a donated argument used
again), and more than 31 queued programs with collectives. So arguments are tested here, and per client at most
`WINDOW` such programs are in flight, counted over all threads. The window costs nothing: it is faster than a free run.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from . import _jaxlib
from ._jaxlib import ArrayImpl

__all__ = ["WINDOW", "Window", "check_donation", "check_usable", "window_of"]

WINDOW = 8


class Window:
    """Results of the latest launches on one client; `passed(out)` waits for the oldest when there are too many.

    A result that was donated onward can no longer be waited for. After `WINDOW` of those in a row the newest result is
    waited for instead, which bounds the programs in flight to twice the window.
    """

    __slots__ = ("_pending", "_lost")

    def __init__(self) -> None:
        self._pending: deque[Any] = deque()
        self._lost = 0

    def passed(self, out: Any) -> None:
        """A program was launched; `out` is one of its results."""
        pending = self._pending
        pending.append(out)
        if len(pending) <= WINDOW:
            return
        try:
            oldest = pending.popleft()
        except IndexError:  # another thread took it
            return
        if oldest.is_deleted():
            self._lost += 1
            if self._lost < WINDOW:
                return
            oldest = out
        self._lost = 0
        try:
            _wait(oldest)
        except _jaxlib.LAUNCH_ERRORS:
            pass  # its own error reaches whoever reads it

    def drain(self) -> None:
        """Wait for everything in flight."""
        while self._pending:
            try:
                _wait(self._pending.popleft())
            except (IndexError, *_jaxlib.LAUNCH_ERRORS):
                pass


_wait = _jaxlib.wait_for
_windows: dict[int, Window] = {}


def window_of(client: Any) -> Window:
    """The window of a client, shared by all threads."""
    found = _windows.get(id(client))
    if found is None:
        found = _windows.setdefault(id(client), Window())
    return found


def check_usable(call: str, name: str, flat: Iterable[Any]) -> None:
    """RuntimeError when an argument was deleted or donated."""
    for i, x in enumerate(flat):
        if type(x) is ArrayImpl and x.is_deleted():
            raise RuntimeError(f"{call} of `{name}`: Array has been deleted or donated: flat argument {i}, "
                               f"{x.aval.long()}. Keep a copy (x.copy()) of an array that a donating function takes, "
                               "or use that function's result")


def check_donation(call: str, name: str, flat: Sequence[Any], donated: Sequence[bool]) -> None:
    """ValueError when an argument is given up and used in another place of the same call."""
    seen: dict[int, bool] = {}
    for x, gone in zip(flat, donated):
        if type(x) is ArrayImpl:
            before = seen.get(id(x))
            if before is not None and (before or gone):
                raise ValueError(f"{call} of `{name}`: a donated array {x.aval.long()} is passed twice in one call; "
                                 "pass a copy")
            seen[id(x)] = gone
