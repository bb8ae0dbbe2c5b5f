"""Recording what runs when: `with trace(folder):` writes a profile that TensorBoard and Perfetto read."""
from __future__ import annotations

import functools
import glob
import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import _jaxlib, backends

__all__ = ["LineTime", "StepTraceAnnotation", "TraceAnnotation", "annotate_function", "device_memory_profile",
           "save_device_memory_profile", "start_server", "start_trace", "stop_server", "stop_trace", "time_by_line", "trace"]

_lock = threading.Lock()
_session: tuple[Any, str] | None = None
_server: Any = None

TraceAnnotation, _Session = _jaxlib.load_profiler()
"""Context manager: names what runs inside it in the profile, with further facts as keywords."""


class StepTraceAnnotation(TraceAnnotation):  # type: ignore[misc, valid-type]
    """Context manager for one training step: `with StepTraceAnnotation("train", step_num=i):`."""

    def __init__(self, name: str, **facts: Any) -> None:
        super().__init__(name, _r=1, **facts)


def start_trace(log_dir: str | os.PathLike[str]) -> None:
    """Begin recording. RuntimeError while another recording runs."""
    global _session
    with _lock:
        if _session is not None:
            raise RuntimeError("start_trace: a profile is being recorded already; call stop_trace first")
        _session = _Session(), os.fspath(log_dir)


def stop_trace() -> None:
    """End recording and write `plugins/profile/<time>/` under the folder given to `start_trace`."""
    global _session
    with _lock:
        if _session is None:
            raise RuntimeError("stop_trace: no profile is being recorded; call start_trace first")
        session, folder = _session
        _session = None
    session.stop_and_export(folder)


@contextmanager
def trace(log_dir: str | os.PathLike[str]) -> Iterator[None]:
    """A block that is recorded. Block on results inside it, or their work may end after the recording."""
    start_trace(log_dir)
    try:
        yield
    finally:
        stop_trace()


def device_memory_profile(backend: str | None = None) -> bytes:
    """What is in the memory of the devices now, as a compressed profile that `pprof` reads.

    Args:
      backend: a platform; None for that of the default devices.

    >>> device_memory_profile()[:2]  # compressed by gzip
    b'\\x1f\\x8b'
    """
    profile = backends.get_backend(backend).heap_profile()
    return profile if profile[:2] == b"\x1f\x8b" else gzip.compress(profile)


def save_device_memory_profile(filename: str | os.PathLike[str], backend: str | None = None) -> None:
    """Write `device_memory_profile` to a file.

    Args:
      filename: its path.
      backend: as of `device_memory_profile`.
    """
    with open(filename, "wb") as f:
        f.write(device_memory_profile(backend))


def start_server(port: int) -> Any:
    """Let other programs, as TensorBoard, record profiles of this one through a port.

    Args:
      port: its number.
    Returns:
      The server, which runs until `stop_server`.
    Raises:
      ValueError: one runs already.
    """
    global _server
    with _lock:
        if _server is not None:
            raise ValueError("start_server: a server of profiles runs already; call stop_server first")
        _server = _jaxlib.profile_server(port)
        return _server


def stop_server() -> None:
    """End what `start_server` began.

    Raises:
      ValueError: no server runs.
    """
    global _server
    with _lock:
        if _server is None:
            raise ValueError("stop_server: no server of profiles runs; call start_server first")
        _server = None


class LineTime(NamedTuple):
    """Time that instructions of one line took: `seconds` over all threads and calls in the profile."""

    file: str
    line: int
    function: str
    part: str
    seconds: float


def time_by_line(log_dir: str | os.PathLike[str], compiled: Any) -> list[LineTime]:
    """How long each of the user's lines took in a recorded profile.

    Args:
      log_dir: the folder given to `trace`; the last profile in it is read.
      compiled: the compiled call that ran, of `jit(f).lower(...).compile()`: it knows the lines of its instructions.
    Returns:
      One entry per line, and per part of a derivative ("" or "backward"), the longest first. A fused instruction counts for
      the line of its last operation; what the compiler added by itself is at line 0 of no file.
    Raises:
      FileNotFoundError: there is no profile in the folder.
    """
    found = glob.glob(os.path.join(glob.escape(os.fspath(log_dir)), "plugins", "profile", "*", "*.trace.json.gz"))
    if not found:
        raise FileNotFoundError(f"time_by_line: no profile in {os.fspath(log_dir)!r}; record one with `with trace(folder):`")
    with gzip.open(max(found, key=os.path.getmtime)) as f:
        events = json.load(f)["traceEvents"]
    module = compiled.as_text().split(None, 2)[1].rstrip(",")
    lines = compiled.instruction_lines()
    total: dict[tuple[str, int, str, str], float] = {}
    for op, seconds in _own_times(e for e in events if e.get("args", {}).get("hlo_module", "") == module):
        at = lines.get(op)
        key = ("", 0, "", "") if at is None else (at[0].file, at[0].line, at[0].function, at[0].part)
        total[key] = total.get(key, 0.0) + seconds
    return sorted((LineTime(*key, seconds) for key, seconds in total.items()), key=lambda t: -t.seconds)


def _own_times(events: Iterator[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """(instruction, seconds) of each event, without those of the events within it: a loop's without its body's."""
    rows = sorted((e for e in events if e.get("ph") == "X"), key=lambda e: (e["tid"], e["ts"], -e["dur"]))
    open_: list[list[Any]] = []  # [thread, end, instruction, own time]
    for e in rows:
        while open_ and (open_[-1][0] != e["tid"] or open_[-1][1] < e["ts"] + e["dur"]):
            _, _, op, own = open_.pop()
            yield op, own * 1e-6
        if open_:
            open_[-1][3] -= e["dur"]
        open_.append([e["tid"], e["ts"] + e["dur"], e["args"].get("hlo_op", e["name"]), e["dur"]])
    for _, _, op, own in reversed(open_):
        yield op, own * 1e-6


def annotate_function(fun: Callable[..., Any], name: str | None = None, **facts: Any) -> Callable[..., Any]:
    """`fun`, named in profiles.

    >>> annotate_function(lambda x: x + 1, name="next")(1)
    2
    """
    label = name or getattr(fun, "__qualname__", type(fun).__name__)

    @functools.wraps(fun)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **facts):
            return fun(*args, **kwargs)

    return annotated
