"""Determine from a thread's stack whether it blocks until another thread wakes it. For `deadlock_detection`.

A process counts as waiting only if none of its threads can start a launch by itself. Python has no documented way to ask
whether a thread is blocked, and on what:

- `threading.Thread` knows whether it is alive, not what it does.
- The system (/proc/self/task/*/wchan) shows that a thread sleeps on a lock, not on which, nor whether with a time limit.
- `concurrent.futures` does not say which workers are idle.
- Wrapping `Condition.wait` and `Thread.join` would change the standard library for all code of the process.

So this module reads local variables of the standard library's frames in other threads. It relies on the following.
`tests/test_thread_frames.py` fails when one of these no longer holds:

- `sys._current_frames` returns the innermost Python frame of each thread. `f_locals` of it can be read meanwhile: the
  reading thread holds the GIL, so the frame does not run.
- `Thread.join` has the variables `self` and `timeout`.
- `Condition.wait` has `timeout`, `waiter` (a lock that `notify` releases) and `gotit` (whether it is acquired). `Queue`,
  `Event` and others wait with it.
- A worker of `ThreadPoolExecutor` runs `_worker` with `executor_reference`, `work_queue` and `work_item` (None or unset
  while it is idle), and waits for work inside C code.
- `threading._shutdown` waits for the other threads at the end of the interpreter.

An unknown frame counts as runnable. So with another Python a deadlock may be missed, but none is reported wrongly.
"""
from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any

__all__ = ["current_frames", "is_blocked"]

_JOIN, _WAIT, _SHUTDOWN = (f.__code__ for f in (threading.Thread.join, threading.Condition.wait,
                                                threading._shutdown))  # type: ignore[attr-defined]
_MAX_DEPTH = 3  # frames: Queue.get and Event.wait call Condition.wait, so that may be a frame or two further out


def current_frames() -> dict[int, FrameType]:
    """Return thread id -> its innermost frame."""
    return sys._current_frames()


def is_blocked(frame: FrameType) -> bool:
    """Return whether a thread with this innermost frame blocks, without a time limit, until another thread wakes it.

    Recognized are `join`, waits for a Condition, Event or Queue, idle workers of a ThreadPoolExecutor, and the end of
    the interpreter.
    """
    if _is_executor_worker(frame):
        return bool(frame.f_locals["work_queue"].empty()) and frame.f_locals.get("work_item") is None
    at: FrameType | None = frame
    for _ in range(_MAX_DEPTH):
        if at is None:
            return False
        code = at.f_code
        if code is _SHUTDOWN:
            return True
        if code is _JOIN or code is _WAIT:
            variables = at.f_locals
            if variables.get("timeout") is None:
                return _is_joining(variables) if code is _JOIN else _is_waiting(variables)
        at = at.f_back
    return False


def _is_executor_worker(frame: FrameType) -> bool:
    return (frame.f_code.co_name == "_worker" and "executor_reference" in frame.f_locals
            and "work_queue" in frame.f_locals)


def _is_joining(variables: Mapping[str, Any]) -> bool:
    """Return whether `Thread.join` with these variables waits."""
    return bool(variables["self"].is_alive())


def _is_waiting(variables: Mapping[str, Any]) -> bool:
    """Return whether `Condition.wait` with these variables waits. After `notify`, its `waiter` is unlocked."""
    return variables.get("gotit") is False and bool(variables["waiter"].locked())
