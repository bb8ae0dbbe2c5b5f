"""Block background threads at interpreter exit, so that they do not abort the process.

During finalization, Python ends every other thread when it next takes the GIL. If that happens inside a function of
jaxlib, the C++ runtime aborts the process (SIGABRT), although its work is done. So an atexit handler makes every call
miss jaxlib's cache, and cache misses call `block_thread`: there all threads but the exiting one wait forever. The
handler waits for compilations that are running, and up to `_GRACE_SECONDS` for other calls. A longer call, e.g. a thread that
waits for a program, may still abort the process.
"""
from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from typing import NoReturn

from .. import _jaxlib

__all__ = ["block_thread", "blocked_threads", "compiling_threads", "end_process"]

_GRACE_SECONDS = 0.25  # spent only if a background thread may be in a call
# Python's standard library. `sysconfig` knows its path too, but takes two milliseconds to import.
_LIBRARY = os.path.dirname(threading.__file__)
_exiting = _jaxlib.new_state("leaving", None)
blocked_threads: set[int] = set()  # ids of the exiting thread and the blocked ones; empty before the exit
_exiting_thread: int | None = None
compiling_threads: set[int] = set()  # ids of threads whose compilation the exit of the process waits for


def block_thread() -> None:
    """Block the calling thread forever unless it is the exiting one. Cache misses call this during the exit."""
    me = threading.get_ident()
    if _exiting_thread != me:
        blocked_threads.add(me)
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()  # never returns


def end_process() -> NoReturn:
    """End the process at once, after Ctrl-C during its exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed, or None
            pass
    os._exit(130)  # the status of a process that Ctrl-C ended


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
    try:
        while compiling_threads - {_exiting_thread}:
            time.sleep(0.002)
    except KeyboardInterrupt:
        end_process()
    end = time.monotonic() + _GRACE_SECONDS
    while _has_running_thread() and time.monotonic() < end:
        time.sleep(0.002)


atexit.register(_at_exit)
