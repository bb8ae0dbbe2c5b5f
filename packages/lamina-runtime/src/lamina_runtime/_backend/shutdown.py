"""Block background threads at interpreter exit, so that they do not abort the process.

During finalization, Python ends every other thread when it next takes the GIL. If that happens inside a function of
jaxlib, the C++ runtime aborts the process (SIGABRT), although its work is done. So an atexit handler makes every call
miss jaxlib's cache, and cache misses call `block_thread`: there all threads but the exiting one wait forever. The
handler waits up to `_GRACE_SECONDS` for calls that are already running. A longer call, e.g. a thread that waits for a
program, may still abort the process.
"""
from __future__ import annotations

import atexit
import os
import sys
import threading
import time

from .. import _jaxlib

__all__ = ["block_thread", "blocked_threads"]

_GRACE_SECONDS = 0.25  # spent only if a background thread may be in a call
# Python's standard library. `sysconfig` knows its path too, but takes two milliseconds to import.
_LIBRARY = os.path.dirname(threading.__file__)
_exiting = _jaxlib.new_state("leaving", None)
blocked_threads: set[int] = set()  # ids of the exiting thread and the blocked ones; empty before the exit
_exiting_thread: int | None = None


def block_thread() -> None:
    """Block the calling thread forever unless it is the exiting one. Cache misses call this during the exit."""
    me = threading.get_ident()
    if _exiting_thread != me:
        blocked_threads.add(me)
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()  # never returns


def _has_running_thread() -> bool:
    """Return whether a daemon thread may be in a call: not blocked yet, and not waiting in the standard library."""
    frames = sys._current_frames()
    return any(t.ident in frames and not frames[t.ident].f_code.co_filename.startswith(_LIBRARY)
               for t in threading.enumerate() if t.daemon and t.ident is not None and t.ident not in blocked_threads)


def _at_exit() -> None:
    global _exiting_thread
    if not any(t.daemon for t in threading.enumerate()):
        return
    _exiting_thread = threading.get_ident()
    blocked_threads.add(_exiting_thread)
    _exiting.set_global(True)  # part of every signature, so that all calls miss the cache from now on
    end = time.monotonic() + _GRACE_SECONDS
    while _has_running_thread() and time.monotonic() < end:
        time.sleep(0.002)


atexit.register(_at_exit)
