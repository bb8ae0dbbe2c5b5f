"""Describe what each thread of this process does: its line of user code, and the launch or call in which it waits.

All of it is read from the stacks of the threads, so a launch costs nothing more. A function whose frame has a meaning is
listed in `_READERS` with the local variables that it relies on; `tests/test_thread_states.py` fails if they change.
"""
from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from lamina_ir.extend import HostCall
from lamina_runtime.extend.processes import COMPILATION_CODE

from . import host_gather, launch_comparison, multi_process, thread_frames
from .deadlock_detection import INTERNAL_THREADS
from .._typing import Message

__all__ = ["ThreadStates", "add_source_lines"]

_LIBRARIES = tuple({sysconfig.get_path(n) + os.sep for n in ("stdlib", "platstdlib", "purelib", "platlib")})
_STATES, _PAUSE = 3, 0.002  # samples of a thread's state in the system, and seconds between them
_MAX_SOURCE, _MAX_THREADS = 100, 4  # characters of a line; threads that are described


def _read_wait(variables: dict[str, Any]) -> Message:
    """Return the launch that `_wait_for_agreement` compares, and the processes that have not come."""
    frames = variables["frames"]
    missing = next(([p.rank for p in of if not p.token_received] for _, of in frames.group.rounds
                    if not all(p.token_received for p in of)), [])
    return {"kind": "waits", "launch": frames.call, "number": frames.group.launches + 1, "for": missing,
            "processes": [*frames.group.ranks]}


def _read_launch(variables: dict[str, Any]) -> Message:
    """Return the launch that `MultiProcessLauncher._launch_next` makes or waits for."""
    program = variables["program"]
    return {"kind": "launch", "launch": f"{program.call} of `{program.name}`", "processes": [*program.processes]}


def _read_gather(variables: dict[str, Any]) -> Message:
    """Return the call that `HostGather._wait` belongs to, and the process whose values it waits for."""
    gather = variables["self"]
    return {"kind": "gather", "launch": gather._call, "for": [variables["rank"]], "processes": [*range(gather.count)]}


def _read_compilation(variables: dict[str, Any]) -> Message:
    return {"kind": "compiling", "launch": str(getattr(variables["self"].lowered, "name", ""))}


def _read_callback(variables: dict[str, Any]) -> Message:
    return {"kind": "callback"}


_READERS: dict[CodeType, Callable[[dict[str, Any]], Message]] = {
    launch_comparison._wait_for_agreement.__code__: _read_wait,
    multi_process.MultiProcessLauncher._launch_next.__code__: _read_launch,
    host_gather.GroupGather._wait.__code__: _read_gather,
    COMPILATION_CODE: _read_compilation,
    HostCall.__call__.__code__: _read_callback,
}


class ThreadStates:
    """The states of the threads of this process, and since when each has been in its state.

    A state is a JSON object. "kind" is one of `roll_call.WAITING`, "callback", "compiling" or "python". "at" is the line
    of user code, "function" its function. "seconds" is the time since `sample` first saw the state. For a launch,
    "launch", "number", "for" and "processes" identify it and the processes that it waits for.
    """

    def __init__(self) -> None:
        self._since: dict[int, tuple[object, float]] = {}  # thread -> (what identifies its state, when first seen)
        self._lock = threading.Lock()

    def sample(self) -> list[Message]:
        """Return the states of the main thread and of others in a launch, a compilation or a callback; main first."""
        main = threading.main_thread().ident
        internal = {t.ident for t in threading.enumerate() if t.name in INTERNAL_THREADS}
        found: list[Message] = []
        now, since = time.monotonic(), {}
        frames = thread_frames.current_frames()
        with self._lock:
            for thread in sorted(frames, key=lambda t: t != main):
                if thread in internal or thread == threading.get_ident():
                    continue
                key, state = _describe(frames[thread])
                before = self._since.get(thread)
                since[thread] = before if before is not None and before[0] == key else (key, now)
                if thread == main or state["kind"] != "python":
                    found.append({**state, "thread": thread, "seconds": round(now - since[thread][1], 1)})
            self._since = since
        return found[:_MAX_THREADS]


def add_source_lines(states: list[Message]) -> list[Message]:
    """Add the text of the lines, and whether threads that run Python are blocked in the system."""
    for state in states:
        file, _, line = state["at"].rpartition(":")
        if file:
            state["source"] = linecache.getline(file, int(line)).strip()[:_MAX_SOURCE]
        if state["kind"] == "python":
            state["blocked"] = _is_asleep(state["thread"])
    return states


def _describe(frame: FrameType) -> tuple[object, Message]:
    """Return (key, state) of the thread with this innermost frame. The key changes when the thread moves on."""
    state: Message | None = None
    key: object = None
    user: FrameType | None = None
    for f in _callers(frame):
        reader = _READERS.get(f.f_code)
        # The innermost such frame counts: a launch may be made inside of a callback.
        if reader is not None and state is None:
            try:
                state = reader(dict(f.f_locals))
            except Exception:  # a variable is not set yet
                state = None
            key = id(f), f.f_code
        if user is None and _is_user_file(f.f_code.co_filename):
            user = f
    at = user or frame
    state = state or {"kind": "python"}
    state["at"], state["function"] = f"{at.f_code.co_filename}:{at.f_lineno}", at.f_code.co_name
    # A callback and plain Python are known by their line, a wait by the frame of its call.
    return (key if state["kind"] not in ("python", "callback") else None, id(at), at.f_lineno, state["kind"]), state


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@lru_cache(1024)
def _is_user_file(name: str) -> bool:
    """Return whether a file is neither of these packages nor of Python's library or an installed package."""
    own = [os.path.dirname(file) + os.sep for package, module in list(sys.modules.items())
           if package.partition("_")[0] == "lamina" and "." not in package and (file := getattr(module, "__file__", None))]
    return not name.startswith((*_LIBRARIES, *own, "<frozen"))


def _is_asleep(thread: int) -> bool | None:
    """Return whether a thread sleeps in the system, as in a read; None if that is unknown. Only Linux has it."""
    native = next((t.native_id for t in threading.enumerate() if t.ident == thread), None)
    for _ in range(_STATES):
        try:
            with open(f"/proc/self/task/{native}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "R":
                    return False
        except (OSError, IndexError):
            return None
        time.sleep(_PAUSE)
    return True
