"""Counters of one session, in the text form of OpenMetrics. They exist only if `initialize` has a `health_port`."""
from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from lamina_runtime.extend import processes as runtime
from lamina_runtime.extend.processes import MultiProcessProgram

from . import collective_bytes

__all__ = ["Metrics"]

_T = TypeVar("_T")


class Metrics:
    """Counts the launches of multi-process programs, the bytes of their collectives, and the waits for other processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # several threads may launch programs
        self._launches: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._wait_seconds, self._waiting = 0.0, 0
        self._per_launch: weakref.WeakKeyDictionary[Any, dict[str, int]] = weakref.WeakKeyDictionary()

    def count(self, agree: Callable[[Any, Callable[[], Any]], Any]) -> Callable[[Any, Callable[[], Any]], Any]:
        """Return a function like `MultiProcessLauncher.launch_agreed` that counts."""
        def counted(program: MultiProcessProgram, launch: Callable[[], _T]) -> _T:
            began, waits = time.monotonic(), True

            def end_wait() -> None:
                nonlocal waits
                with self._lock:
                    self._wait_seconds += time.monotonic() - began
                    self._waiting -= 1
                waits = False

            def launch_now() -> _T:
                end_wait()
                return launch()

            with self._lock:
                self._waiting += 1
            try:
                outs: _T = agree(program, launch_now)
            finally:
                if waits:  # the processes did not agree
                    end_wait()
            self._add_launch(program)
            return outs
        return counted

    def _add_launch(self, program: MultiProcessProgram) -> None:
        per_launch = self._per_launch.get(program)
        if per_launch is None:
            per_launch = self._per_launch[program] = _bytes_per_launch(program)
        with self._lock:
            self._launches[program.call] += 1
            self._bytes.update(per_launch)

    def format(self, processes: int, lost: int, left: int) -> str:
        """Return all metrics as OpenMetrics text.

        Args:
          processes: number of processes of the session.
          lost, left: numbers of those that were lost and that have left.
        """
        with self._lock:
            launches, sizes = sorted(self._launches.items()), sorted(self._bytes.items())
            waited, waiting = self._wait_seconds, self._waiting
        lines = [
            *_head("lamina_launches", "counter", "Launches of programs over several processes, by the kind of call"),
            *[f'lamina_launches_total{{call="{call}"}} {n}' for call, n in launches],
            *_head("lamina_collective_bytes", "counter", "Bytes of the results of collectives in the devices of this process",
                   "bytes"),
            *[f'lamina_collective_bytes_total{{collective="{name}"}} {n}' for name, n in sizes],
            *_head("lamina_wait_seconds", "counter", "Time that launches waited for other processes", "seconds"),
            f"lamina_wait_seconds_total {waited:.6f}",
            *_head("lamina_waiting_launches", "gauge", "Launches that wait for other processes now"),
            f"lamina_waiting_launches {waiting}",
            *_head("lamina_lost_processes", "counter", "Processes that were lost in this session"),
            f"lamina_lost_processes_total {lost}",
            *_head("lamina_processes", "gauge", "Processes of this session that are connected"),
            f"lamina_processes {processes - lost - left}",
            "# EOF"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, text: str, unit: str = "") -> list[str]:
    return [f"# TYPE {name} {kind}", *([f"# UNIT {name} {unit}"] if unit else []), f"# HELP {name} {text}."]


def _bytes_per_launch(program: MultiProcessProgram) -> dict[str, int]:
    """Return collective -> bytes of one launch in the local devices; {} if jaxlib does not show the program."""
    try:
        text = program.loaded.executable.hlo_modules()[0].to_string()
        devices = len(program.loaded.executable.local_devices())
    except (*runtime.LAUNCH_ERRORS, RuntimeError, AttributeError, IndexError):
        return {}
    return {name: n * devices for name, n in collective_bytes.count_bytes(text).items()}
