"""Compare launches aside: one comparison at a time, in a thread of its own.

A difference is raised at the next launch, or at the end of the process. A launch that comes while one is compared is left
out, so that at most one has copies in memory.
"""
from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable

from .errors import DifferenceError

__all__ = ["finish", "is_comparing", "raise_found", "release", "reserve", "submit"]

_EXIT_SECONDS = 60.0  # how long the end of the process waits for a comparison


class _Shadow:
    """The comparison in progress.

    Attributes:
      lock: held while the attributes change.
      is_reserved: whether a launch is copied or compared.
      thread: that compares; None: there is none.
      error: the difference that was found and not raised.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_reserved = False
        self.thread: threading.Thread | None = None
        self.error: DifferenceError | None = None


class _Local(threading.local):
    is_comparing = False  # whether this thread compares


_shadow, _local = _Shadow(), _Local()


def is_comparing() -> bool:
    """Return whether this thread compares a launch, so that its own launches are not compared."""
    return _local.is_comparing


def reserve() -> bool:
    """Return whether no launch is compared, so that the caller may compare one. It then calls `submit` or `release`."""
    with _shadow.lock:
        if _shadow.is_reserved:
            return False
        _shadow.is_reserved = True
        return True


def release() -> None:
    """Give back what `reserve` gave, without a comparison."""
    _shadow.is_reserved, _shadow.thread = False, None


def submit(compare: Callable[[], None], note: Callable[[Exception], None]) -> None:
    """Compare in a thread.

    Args:
      compare: raises DifferenceError if there is a difference.
      note: called with each exception of `compare`, at once.
    """
    def work() -> None:
        _local.is_comparing = True
        try:
            compare()
        except Exception as e:
            if isinstance(e, DifferenceError):
                _shadow.error = e
            note(e)
        finally:
            release()

    thread = threading.Thread(target=work, name="lamina shadow mode", daemon=True)
    _shadow.thread = thread
    thread.start()


def raise_found() -> None:
    """Raise the difference that was found since the last call."""
    if _shadow.error is not None:
        with _shadow.lock:
            error, _shadow.error = _shadow.error, None
        if error is not None:
            raise error


def finish(seconds: float = _EXIT_SECONDS) -> None:
    """Wait for the comparison in progress, and raise what it finds."""
    thread = _shadow.thread
    if thread is not None and thread is not threading.current_thread():
        thread.join(seconds)
    raise_found()


def _in_child() -> None:
    """Forget the comparison of the parent process, whose thread does not exist here."""
    global _shadow
    _shadow = _Shadow()


atexit.register(finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
