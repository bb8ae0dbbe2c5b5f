"""Record profiles: `with trace(folder):` writes a profile for TensorBoard and Perfetto."""
from __future__ import annotations

import glob
import gzip
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from lamina_tracing.extend import wraps
from lamina_ir.typing import Function, Tree

from . import _jaxlib
from ._backend import backends

__all__ = ["LineTime", "ProfileData", "ProfileEvent", "ProfileLine", "ProfileOptions", "ProfilePlane", "Recording",
           "StepTraceAnnotation", "TraceAnnotation", "annotate_function", "device_memory_profile", "record",
           "register_subprocess", "save_device_memory_profile", "start_server", "start_trace", "stop_server", "stop_trace",
           "time_by_line", "trace"]

_lock = threading.Lock()
_session: tuple[Any, str] | None = None
_server: object = None

TraceAnnotation, _Session = _jaxlib.profiler_classes()
TraceAnnotation.__doc__ = """Context manager that names the enclosed work in the profile. Keywords are shown as metadata."""

ProfileData, ProfilePlane, ProfileLine, ProfileEvent = _jaxlib.profile_reader_classes()
"""Readers of recorded profiles: `ProfileData.from_file(path)` of a file `*.xplane.pb` has `planes`, these have `lines`,
these have `events`, each with `name`, `start_ns`, `duration_ns` and `stats`. They are jaxlib's classes."""

ProfileOptions = _jaxlib.profile_recorder().ProfileOptions
ProfileOptions.__doc__ = """Choose what a profile records: `host_tracer_level` (0 to 3), `python_tracer_level` (0 or 1), ...

It is jaxlib's class; see its attributes."""


class StepTraceAnnotation(TraceAnnotation):  # type: ignore[misc, valid-type]
    """Context manager for one training step: `with StepTraceAnnotation("train", step_num=i):`."""

    def __init__(self, name: str, **metadata: object) -> None:
        super().__init__(name, _r=1, **metadata)


def start_trace(log_dir: str | os.PathLike[str], *, profiler_options: Any = None) -> None:
    """Start recording.

    Args:
      log_dir: the folder of the profile.
      profiler_options: a `ProfileOptions`; None: the default ones.
    Raises:
      TypeError: `profiler_options` is something else.
      RuntimeError: a recording is already running.
    """
    if not isinstance(profiler_options, ProfileOptions | None):
        raise TypeError("start_trace: profiler_options must be a ProfileOptions or None; got "
                        f"{type(profiler_options).__name__}")
    _start("start_trace", profiler_options, os.fspath(log_dir))


def _start(call: str, options: Any, folder: str) -> None:
    global _session
    with _lock:
        if _session is not None:
            raise RuntimeError(f"{call}: a profile is already being recorded; call stop_trace first")
        session = _Session() if options is None else _Session(options)
        _session = session, folder


def stop_trace() -> None:
    """Stop recording and write `plugins/profile/<time>/` in the folder of `start_trace`."""
    global _session
    with _lock:
        if _session is None:
            raise RuntimeError("stop_trace: no profile is being recorded; call start_trace first")
        session, folder = _session
        _session = None
    session.stop_and_export(folder)


@contextmanager
def trace(log_dir: str | os.PathLike[str], *, profiler_options: Any = None) -> Iterator[None]:
    """Context manager that records a profile of its block.

    Wait for results inside the block (`block_until_ready`), otherwise their work may end after the recording.

    Args:
      log_dir, profiler_options: as for `start_trace`.

    >>> import glob, tempfile
    >>> options = ProfileOptions()
    >>> options.python_tracer_level = 0
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with trace(folder, profiler_options=options):
    ...         pass
    ...     [path] = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
    ...     any(plane.name == "/host:CPU" for plane in ProfileData.from_file(path).planes)
    True
    """
    start_trace(log_dir, profiler_options=profiler_options)
    try:
        yield
    finally:
        stop_trace()


class Recording:
    """A profile in memory, from `record`.

    Attributes:
      serialized: the profile as a serialized `XSpace`; empty until the recording ends.
    """

    def __init__(self) -> None:
        self.serialized = b""

    @property
    def data(self) -> Any:
        """The profile as a `ProfileData`."""
        return ProfileData.from_serialized_xspace(self.serialized)


@contextmanager
def record(*, profiler_options: Any = None) -> Iterator[Recording]:
    """Context manager that records a profile of its block in memory, without files.

    Wait for results inside the block, as for `trace`.

    Args:
      profiler_options: a `ProfileOptions`; None: the default ones.
    Raises:
      RuntimeError: a recording is already running.

    >>> with record() as recording:
    ...     pass
    >>> any(plane.name == "/host:CPU" for plane in recording.data.planes)
    True
    """
    global _session
    recording = Recording()
    _start("record", profiler_options, "")
    try:
        yield recording
    finally:
        with _lock:
            found, _session = _session, None
        if found is not None:
            recording.serialized = found[0].stop()


def device_memory_profile(backend: str | None = None) -> bytes:
    r"""Return the current memory use of the devices as a compressed `pprof` profile.

    Args:
      backend: the platform; None: the default platform.

    >>> device_memory_profile()[:2]  # compressed by gzip
    b'\x1f\x8b'
    """
    profile = backends.get_backend(backend).heap_profile()
    return profile if profile[:2] == b"\x1f\x8b" else gzip.compress(profile)


def save_device_memory_profile(filename: str | os.PathLike[str], backend: str | None = None) -> None:
    """Write the result of `device_memory_profile` to a file.

    Args:
      filename: its path.
      backend: as for `device_memory_profile`.
    """
    with open(filename, "wb") as f:
        f.write(device_memory_profile(backend))


def register_subprocess(pid: int, port: int) -> Function:
    """Record the profiles of a process that this one started together with its own.

    Args:
      pid: the id of the process.
      port: the port of its `start_server`.
    Returns:
      A function that ends this.
    Raises:
      ValueError: `pid` is that of this process, or no server answers at the port.
    """
    try:
        return _jaxlib.profile_recorder().register_subprocess(pid, port)
    except _jaxlib.JaxRuntimeError as e:
        raise ValueError(f"register_subprocess: pid {pid} cannot be registered: {e}") from e


def start_server(port: int) -> object:
    """Start a server through which other programs, such as TensorBoard, record profiles of this process.

    Args:
      port: the port number.
    Returns:
      The server, which runs until `stop_server`.
    Raises:
      ValueError: a server is already running.
    """
    global _server
    with _lock:
        if _server is not None:
            raise ValueError("start_server: the profiler server is already running; call stop_server first")
        _server = _jaxlib.profile_server(port)
        return _server


def stop_server() -> None:
    """Stop the server of `start_server`.

    Raises:
      ValueError: no server is running.
    """
    global _server
    with _lock:
        if _server is None:
            raise ValueError("stop_server: the profiler server is not running; call start_server first")
        _server = None


class LineTime(NamedTuple):
    """Time of the instructions of one line: `seconds` is the sum over all threads and calls in the profile."""

    file: str
    line: int
    function: str
    part: str
    seconds: float


def time_by_line(log_dir: str | os.PathLike[str], compiled: Any) -> list[LineTime]:
    """Return the time of each of the user's lines in a recorded profile.

    Args:
      log_dir: the folder given to `trace`; the last profile in it is read.
      compiled: the compiled call that ran, from `jit(f).lower(...).compile()`, which has the lines of its instructions.
    Returns:
      One entry per line, and per part of a derivative ("" or "backward"), the longest time first. A fused instruction
      counts for the line of its last operation. Instructions that the compiler added have file "" and line 0.
    Raises:
      FileNotFoundError: there is no profile in the folder.
    """
    found = glob.glob(os.path.join(glob.escape(os.fspath(log_dir)), "plugins", "profile", "*", "*.trace.json.gz"))
    if not found:
        raise FileNotFoundError(f"time_by_line: no profile in {os.fspath(log_dir)!r}; record one with `with "
                                "trace(folder):`")
    with gzip.open(max(found, key=os.path.getmtime)) as f:
        events = json.load(f)["traceEvents"]
    module = compiled.as_text().split(None, 2)[1].rstrip(",")
    lines = compiled.instruction_lines()
    total: dict[tuple[str, int, str, str], float] = {}
    for op, seconds in _own_times(e for e in events if e.get("args", {}).get("hlo_module", "") == module):
        found = lines.get(op)
        key = ("", 0, "", "") if found is None else (found[0].file, found[0].line, found[0].function, found[0].part)
        total[key] = total.get(key, 0.0) + seconds
    return sorted((LineTime(*key, seconds) for key, seconds in total.items()), key=lambda t: -t.seconds)


def _own_times(events: Iterator[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield (instruction, seconds) of each event, without the time of nested events, such as the body of a loop."""
    sorted_events = sorted((e for e in events if e.get("ph") == "X"), key=lambda e: (e["tid"], e["ts"], -e["dur"]))
    open_events: list[list[Any]] = []  # [thread, end, instruction, own time]
    for e in sorted_events:
        while open_events and (open_events[-1][0] != e["tid"] or open_events[-1][1] < e["ts"] + e["dur"]):
            _, _, op, own = open_events.pop()
            yield op, own * 1e-6
        if open_events:
            open_events[-1][3] -= e["dur"]
        open_events.append([e["tid"], e["ts"] + e["dur"], e["args"].get("hlo_op", e["name"]), e["dur"]])
    for _, _, op, own in reversed(open_events):
        yield op, own * 1e-6


def annotate_function(fun: Function, name: str | None = None, **metadata: object) -> Function:
    """Wrap a function so that profiles show a name for its calls.

    >>> annotate_function(lambda x: x + 1, name="next")(1)
    2
    """
    label = name or getattr(fun, "__qualname__", None)
    if not isinstance(label, str):
        label = type(fun).__name__

    @wraps(fun)
    def annotated(*args: Tree, **kwargs: Tree) -> Tree:
        with TraceAnnotation(label, **metadata):
            return fun(*args, **kwargs)

    return annotated
