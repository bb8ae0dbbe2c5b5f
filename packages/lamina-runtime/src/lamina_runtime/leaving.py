"""What threads of the background do while the interpreter ends.

Once it ends, Python stops each other thread where that next asks for the interpreter. Out of a function of jaxlib such a stop
is not let through, and the C++ library ends the process (SIGABRT, when all was done). So at exit, while everything still
stands, all calls are sent to Python, where threads other than the one that leaves wait for ever; those under way are given a
moment. What takes longer, as a program that a thread waits for, may still end like that.
"""
from __future__ import annotations

import atexit
import os
import sys
import threading
import time

from . import _jaxlib

__all__ = ["stay", "staying"]

_PATIENCE = 0.25  # seconds, taken only where a thread of the background is at work
_LIBRARY = os.path.dirname(threading.__file__)  # of Python; `sysconfig`, which knows it, takes two milliseconds to import
_begun = _jaxlib.new_state("leaving", None)
staying: set[int] = set()  # the one that leaves and those that stay; empty until then
_leaver: int | None = None


def stay() -> None:
    """Asked by what jaxlib calls for a signature that it does not know, once somebody leaves."""
    me = threading.get_ident()
    if _leaver != me:
        staying.add(me)
        for_ever = threading.Lock()
        for_ever.acquire()
        for_ever.acquire()


def _at_work() -> bool:
    """Whether a thread of the background may be in a call: it does not stay yet, nor wait in Python's own library."""
    frames = sys._current_frames()
    return any(t.ident in frames and not frames[t.ident].f_code.co_filename.startswith(_LIBRARY)
               for t in threading.enumerate() if t.daemon and t.ident is not None and t.ident not in staying)


def _at_exit() -> None:
    global _leaver
    if not any(t.daemon for t in threading.enumerate()):
        return
    _leaver = threading.get_ident()
    staying.add(_leaver)
    _begun.set_global(True)  # part of every signature: jaxlib knows none from now on
    end = time.monotonic() + _PATIENCE
    while _at_work() and time.monotonic() < end:
        time.sleep(0.002)


atexit.register(_at_exit)
